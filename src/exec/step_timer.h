// StepTimer: how long the device works on steps and how long it has none, by its own clock. One
// thread, that of the runner.
#pragma once

#include <memory>
#include <utility>

#include "device/device.h"

namespace sluice::exec {

// Of all steps that are finished.
struct StepTimes {
  double busy_s = 0;  // from the first work of a step to its last, the copies of both included
  double idle_s = 0;  // from the last work of a step to the first of the next
};

class StepTimer {
 public:
  // Two events on the stream, around the work of a step; empty where nothing is timed.
  struct Marks {
    std::unique_ptr<device::Event> begin, end;

    Status Begin(device::Stream& stream) { return begin ? stream.Record(*begin) : OkStatus(); }
    Status End(device::Stream& stream) { return end ? stream.Record(*end) : OkStatus(); }
  };

  // kUnimplemented where the device has no timers.
  static Result<std::unique_ptr<StepTimer>> Make(device::Device& device);
  // For a step; to be used again and again.
  Result<Marks> MakeMarks() const;

  // A step is done, and so are its events; not `ok`: it failed, and its times count for nothing.
  // *marks is left with other events. REQUIRES: called in the order of the steps.
  void Finished(bool ok, Marks* marks);

  // Forgets the steps so far.
  void Restart() { times_ = {}, good_ = false; }

  const StepTimes& times() const { return times_; }

 private:
  explicit StepTimer(device::Device& device) : device_(device) {}

  device::Device& device_;
  Marks last_;         // of the last step
  bool good_ = false;  // which finished well
  StepTimes times_;
};

}  // namespace sluice::exec
