#include "schedule/policy.h"

namespace sluice::schedule {
namespace {

class PriorityPolicy : public Policy {
 public:
  explicit PriorityPolicy(int64_t aging_us) : aging_us_(aging_us) {}

  std::string_view Name() const override { return "priority"; }
  // priority - (now - arrival) / aging, ordered alike at every `now`.
  int64_t Rank(const SequenceSpec& spec, int64_t arrival_us) const override {
    return arrival_us + spec.priority * aging_us_;
  }
  bool MayPreempt(const Sequence& waiting, const Sequence& running) const override {
    return waiting.spec.priority < running.spec.priority && waiting.rank < running.rank;
  }

 private:
  const int64_t aging_us_;
};

}  // namespace

std::unique_ptr<Policy> MakePriorityPolicy(int64_t aging_us) {
  return std::make_unique<PriorityPolicy>(aging_us);
}

}  // namespace sluice::schedule
