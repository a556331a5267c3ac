// StepTimer: how long the device works on steps and how long it has none, by its own clock. It puts
// two events on the stream for each step. One thread, that of the Executor.
#pragma once

#include <array>
#include <memory>
#include <optional>

#include "device/device.h"

namespace sluice::exec {

// Of all steps that are finished.
struct StepTimes {
  double busy_s = 0;  // from the first work of a step to its last, the copies of both included
  double idle_s = 0;  // from the last work of a step to the first of the next
};

class StepTimer {
 public:
  static constexpr int kInFlightMax = 2;

  // kUnimplemented where the device has no timers.
  static Result<std::unique_ptr<StepTimer>> Make(device::Device& device);

  // Around the work of a step; then it is in flight, unless it failed and Launched is left out.
  // REQUIRES: fewer than kInFlightMax steps are in flight.
  Status Begin(device::Stream& stream);
  Status End(device::Stream& stream);
  void Launched() { ++next_; }
  // The oldest step in flight is done, and so are its events; not `ok`: it failed, and its times
  // count for nothing.
  void Finished(bool ok);

  const StepTimes& times() const { return times_; }

 private:
  struct Step {
    std::unique_ptr<device::Event> begin, end;
  };
  StepTimer() = default;
  Step& At(int step) { return steps_[static_cast<size_t>(step) % steps_.size()]; }

  std::array<Step, kInFlightMax + 1> steps_;  // those in flight and the last one finished
  int oldest_ = 0;                            // not finished
  int next_ = 0;                              // to begin
  std::optional<int> last_;                   // finished well
  StepTimes times_;
};

}  // namespace sluice::exec
