#include "schedule/policy.h"

namespace sluice::schedule {
namespace {

// Clients share by what they had; of one client, who is urgent goes first.
class FairPolicy : public Policy {
 public:
  std::string_view Name() const override { return "fair"; }
  int64_t Rank(const SequenceSpec& spec, int64_t arrival_us) const override {
    return urgent_first_->Rank(spec, arrival_us);
  }
  bool MayPreempt(const Sequence& waiting, const Sequence& running) const override {
    return waiting.spec.client == running.spec.client &&
           urgent_first_->MayPreempt(waiting, running);
  }
  bool SharesByClient() const override { return true; }

 private:
  const std::unique_ptr<Policy> urgent_first_ = MakePriorityPolicy();
};

}  // namespace

std::unique_ptr<Policy> MakeFairPolicy() { return std::make_unique<FairPolicy>(); }

}  // namespace sluice::schedule
