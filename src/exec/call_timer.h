// CallTimer: how long the calls of ops on a stream take: by events around each where the device has
// a clock, elsewhere by the host's, which waits for each call where the device works beside it. One
// thread, that of the stream.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "device/device.h"
#include "ops/call_observer.h"
#include "ops/call_work.h"

namespace sluice::exec {

// One call that was made.
struct TimedCall {
  std::string_view op, implementation;
  ops::CallWork work;
  double seconds = 0;
};

class CallTimer final : public ops::CallObserver {
 public:
  // `device` must outlive it.
  static Result<std::unique_ptr<CallTimer>> Make(device::Device& device);

  bool by_device() const { return by_device_; }
  // Bytes per second that the device copies within its memory, those read and those written; 0
  // where the device is the host, whose reads a CeilingMeter measures.
  double copied_per_second() const { return copied_per_second_; }

  // Of the step whose calls come next. `head_start_s`: what the device has to do before the first
  // of them, so that the host is ahead of it, and nothing between two events waits for the host.
  void Begin(ops::StepSizes sizes, double head_start_s);
  // The calls since Begin, in order. REQUIRES: the stream is done with them.
  Result<std::vector<TimedCall>> Take();

  Status Before(device::Stream& stream, const ops::ObservedCall& call) override;
  Status Behind(device::Stream& stream, const ops::ObservedCall& call) override;

 private:
  explicit CallTimer(device::Device& device) : device_(device) {}
  Status MeasureCopies(device::Stream& stream);
  Status KeepBusy(device::Stream& stream, double seconds);

  device::Device& device_;
  bool by_device_ = false;
  std::vector<std::unique_ptr<device::Event>> events_;  // two for each call
  device::Buffer from_, to_;                            // of the copies; empty where none are made
  double copied_per_second_ = 0;
  ops::StepSizes sizes_;
  double head_start_s_ = 0;
  int64_t begun_ns_ = 0;  // of the call that is being made, by the host
  std::vector<TimedCall> calls_;
};

}  // namespace sluice::exec
