#include "schedule/policy.h"

namespace sluice::schedule {
namespace {

class FcfsPolicy : public Policy {
 public:
  std::string_view Name() const override { return "fcfs"; }
  int64_t Rank(const SequenceSpec&, int64_t arrival_us) const override { return arrival_us; }
  bool MayPreempt(const Sequence&, const Sequence&) const override { return false; }
};

}  // namespace

std::unique_ptr<Policy> MakeFcfsPolicy() { return std::make_unique<FcfsPolicy>(); }

}  // namespace sluice::schedule
