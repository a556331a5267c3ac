#include "schedule/policy.h"

namespace sluice::schedule {
namespace {

class PriorityPolicy : public Policy {
 public:
  std::string_view Name() const override { return "priority"; }
  // priority - (now - arrival) / aging, ordered alike at every `now`.
  int64_t Rank(const SequenceSpec& spec, int64_t arrival_us) const override {
    return arrival_us + spec.priority * kPriorityAgingUs;
  }
  bool MayPreempt(const Sequence& waiting, const Sequence& running) const override {
    return waiting.spec.priority < running.spec.priority && waiting.rank < running.rank;
  }
};

}  // namespace

std::unique_ptr<Policy> MakePriorityPolicy() { return std::make_unique<PriorityPolicy>(); }

}  // namespace sluice::schedule
