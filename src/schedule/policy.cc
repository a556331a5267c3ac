#include "schedule/policy.h"

#include "base/str_cat.h"

namespace sluice::schedule {

Result<std::unique_ptr<Policy>> MakePolicy(std::string_view name) {
  if (name == "fcfs") return MakeFcfsPolicy();
  if (name == "priority") return MakePriorityPolicy();
  if (name == "fair") return MakeFairPolicy();
  return InvalidArgument(StrCat("there is no scheduling policy '", name,
                                "'; choose fair, priority or fcfs with --scheduler-policy"),
                         "scheduler-policy");
}

}  // namespace sluice::schedule
