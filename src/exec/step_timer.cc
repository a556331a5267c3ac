#include "exec/step_timer.h"

namespace sluice::exec {

Result<std::unique_ptr<StepTimer>> StepTimer::Make(device::Device& device) {
  std::unique_ptr<StepTimer> timer(new StepTimer(device));
  SLUICE_ASSIGN_OR_RETURN(timer->last_, timer->MakeMarks());
  return timer;
}

Result<StepTimer::Marks> StepTimer::MakeMarks() const {
  Marks marks;
  SLUICE_ASSIGN_OR_RETURN(marks.begin, device_.CreateTimer());
  SLUICE_ASSIGN_OR_RETURN(marks.end, device_.CreateTimer());
  return marks;
}

void StepTimer::Finished(bool ok, Marks* marks) {
  const bool follows = std::exchange(good_, false);
  if (!ok) return;
  const auto busy = marks->end->SecondsSince(*marks->begin);
  if (!busy.ok()) return;
  times_.busy_s += *busy;
  if (follows) {
    const auto idle = marks->begin->SecondsSince(*last_.end);
    if (idle.ok()) times_.idle_s += *idle;
  }
  good_ = true;
  std::swap(last_, *marks);
}

}  // namespace sluice::exec
