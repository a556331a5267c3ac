#include "exec/step_timer.h"

#include "base/check.h"

namespace sluice::exec {

Result<std::unique_ptr<StepTimer>> StepTimer::Make(device::Device& device) {
  std::unique_ptr<StepTimer> timer(new StepTimer());
  for (Step& step : timer->steps_) {
    SLUICE_ASSIGN_OR_RETURN(step.begin, device.CreateTimer());
    SLUICE_ASSIGN_OR_RETURN(step.end, device.CreateTimer());
  }
  return timer;
}

Status StepTimer::Begin(device::Stream& stream) {
  CHECK(next_ - oldest_ < kInFlightMax, next_ - oldest_, " steps are in flight");
  return stream.Record(*At(next_).begin);
}

Status StepTimer::End(device::Stream& stream) { return stream.Record(*At(next_).end); }

void StepTimer::Finished(bool ok) {
  CHECK(oldest_ < next_, "no step is in flight");
  const int step = oldest_++;
  const std::optional<int> before = last_;
  last_.reset();
  if (!ok) return;
  const auto busy = At(step).end->SecondsSince(*At(step).begin);
  if (!busy.ok()) return;
  last_ = step;
  times_.busy_s += *busy;
  if (!before) return;
  const auto idle = At(step).begin->SecondsSince(*At(*before).end);
  if (idle.ok()) times_.idle_s += *idle;
}

}  // namespace sluice::exec
