#include "exec/call_timer.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace sluice::exec {
namespace {

// Far beyond the cache of any device, unless its memory is small.
constexpr size_t kCopyBytes = size_t{256} << 20;
constexpr size_t kCopyShare = 16;  // of the free memory, that one copy may take
constexpr int kCopies = 8;

int64_t NowNanos() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

Result<std::unique_ptr<CallTimer>> CallTimer::Make(device::Device& device) {
  std::unique_ptr<CallTimer> timer(new CallTimer(device));
  const auto clock = device.CreateTimer();
  if (!clock.ok() && clock.status().code() != StatusCode::kUnimplemented) return clock.status();
  timer->by_device_ = clock.ok();
  if (!clock.ok() || !device.facts().device_memory) return timer;
  SLUICE_ASSIGN_OR_RETURN(const device::MemoryInfo memory, device.Memory());
  size_t bytes = std::min(kCopyBytes, memory.free_bytes / kCopyShare);
  const size_t most = device.facts().allocation_bytes_max;
  if (most > 0) bytes = std::min(bytes, most);
  constexpr auto kind = device::MemoryKind::kDevice;
  SLUICE_ASSIGN_OR_RETURN(timer->from_, device.Allocate(bytes, kind));
  SLUICE_ASSIGN_OR_RETURN(timer->to_, device.Allocate(bytes, kind));
  SLUICE_ASSIGN_OR_RETURN(const std::unique_ptr<device::Stream> stream, device.CreateStream());
  SLUICE_RETURN_IF_ERROR(timer->MeasureCopies(*stream));
  return timer;
}

Status CallTimer::MeasureCopies(device::Stream& stream) {
  SLUICE_ASSIGN_OR_RETURN(const std::unique_ptr<device::Event> begin, device_.CreateTimer());
  SLUICE_ASSIGN_OR_RETURN(const std::unique_ptr<device::Event> end, device_.CreateTimer());
  const device::CopyItem item{to_.view(), from_.view()};
  for (int i = 0; i <= kCopies; ++i) {
    if (i == 1) SLUICE_RETURN_IF_ERROR(stream.Record(*begin));  // the first one warms up
    SLUICE_RETURN_IF_ERROR(device_.Copy(stream, {&item, 1}));
  }
  SLUICE_RETURN_IF_ERROR(stream.Record(*end));
  SLUICE_RETURN_IF_ERROR(stream.Synchronize());
  SLUICE_RETURN_IF_ERROR(end->Synchronize());
  SLUICE_ASSIGN_OR_RETURN(const double seconds, end->SecondsSince(*begin));
  if (seconds > 0)
    copied_per_second_ = 2.0 * kCopies * static_cast<double>(from_.bytes()) / seconds;
  return OkStatus();
}

Status CallTimer::KeepBusy(device::Stream& stream, double seconds) {
  if (copied_per_second_ <= 0) return OkStatus();
  const device::CopyItem item{to_.view(), from_.view()};
  const double copy_s = 2.0 * static_cast<double>(from_.bytes()) / copied_per_second_;
  for (double busy = 0; busy < seconds; busy += copy_s) {
    SLUICE_RETURN_IF_ERROR(device_.Copy(stream, {&item, 1}));
  }
  return OkStatus();
}

void CallTimer::Begin(ops::StepSizes sizes, double head_start_s) {
  sizes_ = std::move(sizes);
  head_start_s_ = head_start_s;
  calls_.clear();
}

Status CallTimer::Before(device::Stream& stream, const ops::ObservedCall&) {
  if (!by_device_) {
    begun_ns_ = NowNanos();
    return OkStatus();
  }
  if (calls_.empty()) SLUICE_RETURN_IF_ERROR(KeepBusy(stream, head_start_s_));
  const size_t at = 2 * calls_.size();
  while (events_.size() < at + 2) {
    SLUICE_ASSIGN_OR_RETURN(events_.emplace_back(), device_.CreateTimer());
  }
  return stream.Record(*events_[at]);
}

Status CallTimer::Behind(device::Stream& stream, const ops::ObservedCall& call) {
  double seconds = 0;
  if (by_device_) {
    SLUICE_RETURN_IF_ERROR(stream.Record(*events_[2 * calls_.size() + 1]));
  } else {
    if (device_.facts().runs_beside_host) SLUICE_RETURN_IF_ERROR(stream.Synchronize());
    seconds = 1e-9 * static_cast<double>(NowNanos() - begun_ns_);
  }
  calls_.push_back({call.op, call.implementation, ops::WorkOf(call, sizes_), seconds});
  return OkStatus();
}

Result<std::vector<TimedCall>> CallTimer::Take() {
  for (size_t i = 0; by_device_ && i < calls_.size(); ++i) {
    SLUICE_RETURN_IF_ERROR(events_[2 * i + 1]->Synchronize());
    SLUICE_ASSIGN_OR_RETURN(calls_[i].seconds, events_[2 * i + 1]->SecondsSince(*events_[2 * i]));
  }
  return std::exchange(calls_, {});
}

}  // namespace sluice::exec
