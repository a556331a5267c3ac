// The specification of an accelerator. backend/<name> implements it, and what is said here and in
// graph.h holds for every device alike: sluice_device_contract_test (tests/device_contract) runs it
// on each. A Device outlives all that it made. Allocation and creation are thread-safe; a Stream
// belongs to one thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "device/alignment.h"
#include "device/ceilings.h"
#include "device/graph.h"
#include "device/living_buffers.h"
#include "device/types.h"
#include "sluice/status.h"

namespace sluice::ops {
class CallObserver;
class OpTable;
}  // namespace sluice::ops

namespace sluice::device {

// One that was never recorded is done.
class Event {
 public:
  virtual ~Event() = default;
  virtual Status Synchronize() = 0;  // blocks the host until what was recorded is done
  virtual bool Done() = 0;
  // From when the device came to `earlier` until it came to this one, by its clock.
  // REQUIRES: both were made by CreateTimer of one device, and are done.
  virtual Result<double> SecondsSince(Event&) {
    return Status(StatusCode::kUnimplemented, "this event has no time");
  }
};

// What a stream has submitted since it was made: what a step costs the host.
struct SubmitCounts {
  uint64_t kernels = 0;     // launched, those of replayed graphs included
  uint64_t host_calls = 0;  // of the driver
};

// Work in order. Errors of asynchronous work surface at Synchronize at the latest.
class Stream {
 public:
  virtual ~Stream() = default;
  // OpenOptions::check_each_op of its device.
  bool checks_each_op() const { return checks_each_op_; }
  // No work is put on it: ops note their calls there (ops::CallList).
  bool lists_calls() const { return lists_calls_; }
  // Is told of each op that is put on the stream (ops/call_observer.h), for measurements; null, as
  // at first: nobody is.
  ops::CallObserver* observer() const { return observer_; }
  void Observe(ops::CallObserver* observer) { observer_ = observer; }
  virtual Status Synchronize() = 0;
  virtual Status Record(Event& event) = 0;
  // Later work of this stream waits; the host does not. For the copies of KV between processes and
  // for collectives, which come with streams of their own.
  virtual Status Wait(Event& event) = 0;
  // Calls `call` on the host, on any thread, when the stream gets there: behind all earlier work of
  // the stream, whose pinned memory it finds written, and before any later work, which reads what
  // it has written there. So two calls of one stream never run at the same time, whichever steps
  // they belong to. It may put nothing on this stream's device and may not wait for it. In a
  // capture, where facts().captures_host_calls is set (else kFailedPrecondition), each replay calls
  // it, and what it refers to outlives the graph. An error of the call surfaces here or when the
  // host waits for the stream or for an event recorded behind it; later work runs all the same.
  virtual Status CallOnHost(std::function<Status()> call) = 0;
  virtual SubmitCounts counts() const { return {}; }  // zeros where nothing counts them
  // Takes what ops on this stream need beside their tensors, once and before the first step: later
  // calls that need more fail. Nothing where ops take no such memory of the device.
  virtual Status ReserveScratch(size_t) { return OkStatus(); }

 protected:
  explicit Stream(bool checks_each_op = false, bool lists_calls = false)
      : checks_each_op_(checks_each_op), lists_calls_(lists_calls) {}

 private:
  const bool checks_each_op_, lists_calls_;
  ops::CallObserver* observer_ = nullptr;
};

// Owns a range of memory; frees it when destroyed, which is after the work that uses it. Move-only.
class Buffer {
 public:
  class Deleter {
   public:
    virtual ~Deleter() = default;
    virtual void Free(const View& view) = 0;
  };

  Buffer() = default;
  Buffer(View view, std::shared_ptr<Deleter> deleter) : view_(view), deleter_(std::move(deleter)) {
    if constexpr (kRecordsBuffers) view_.buffer = RecordBuffer(view_);
  }
  Buffer(Buffer&& other) noexcept { *this = std::move(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(view_, other.view_);
    std::swap(deleter_, other.deleter_);
    return *this;
  }
  ~Buffer() {
    if constexpr (kRecordsBuffers) ForgetBuffer(view_.buffer);
    if (deleter_ != nullptr && view_.data != nullptr) deleter_->Free(view_);
  }

  const View& view() const { return view_; }
  std::byte* data() const { return view_.data; }
  size_t bytes() const { return view_.bytes; }

 private:
  View view_;
  std::shared_ptr<Deleter> deleter_;
};

struct MemoryInfo {
  size_t total_bytes = 0;
  size_t free_bytes =
      0;  // what an allocation can get now; memory of other processes counts as used
};

// A run of bytes, or rows of equal size with a stride.
struct CopyItem {
  View destination;
  View source;               // one row: source.bytes are copied
  size_t rows = 1;           // more: row_bytes of each, as many rows in both views
  size_t row_bytes = 0;      // set when rows > 1
  size_t source_stride = 0;  // bytes from row to row, >= row_bytes; set when rows > 1
  size_t destination_stride = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual const DeviceFacts& facts() const = 0;
  virtual Result<MemoryInfo> Memory() const = 0;
  // Zeroed, aligned to kAlignment; no bytes give a view that is not null. The view says what it
  // got: plain host memory for kPinned where the device pins none, and for every kind where
  // facts().device_memory is not set, so that kDevice may be asked for anywhere; kShared is
  // kUnimplemented on a device that has none. More than there is is kOutOfMemory, a buffer of the
  // device while a graph is captured on this thread kFailedPrecondition. On the CPU large buffers
  // take no memory until touched.
  virtual Result<Buffer> Allocate(size_t bytes, MemoryKind kind) = 0;
  // What stands in `view`, a part of a buffer, is of no use any more, and no work on it is under
  // way: memory that it took may go back to the system until it is written again, and any bytes may
  // be found there. Nothing where buffers keep their memory.
  virtual void GiveBack(const View& view) { (void)view; }
  virtual Result<std::unique_ptr<Stream>> CreateStream() = 0;
  virtual Result<std::unique_ptr<Event>> CreateEvent() = 0;
  // An event that knows when it happened, which may cost more. kUnimplemented where work runs while
  // it is put on the stream, or where the device has no clock.
  virtual Result<std::unique_ptr<Event>> CreateTimer() {
    return Status(StatusCode::kUnimplemented, ToString(facts().id) + " has no timers");
  }
  // Copies all items in order on `stream`: neighbours that continue one another become one copy,
  // and pieces that stay on the device are submitted together. Items of zero bytes are skipped
  // before any check. kInvalidArgument, and then nothing is copied: views of other devices, null
  // views, a destination that is too small, and an item whose destination overlaps its own source,
  // each taken from its first byte to its last (PlanCopies). One that goes where it lies is done.
  // A source in kHost memory has been read and a destination in kHost memory has been written when
  // the call returns. Pinned, shared and device memory is read and written when the stream gets
  // there: it must outlive that.
  virtual Status Copy(Stream& stream, std::span<const CopyItem> items) = 0;
  // Runs `body` once, which records the kernels and copies that it puts on the stream instead of
  // doing them. Where facts().graphs is kNone, as it is with OpenOptions::check_each_op, and for a
  // communicator whose collectives the device does not capture, the answer is kUnimplemented and
  // `body` is not called. What can't be captured is kFailedPrecondition: another capture, the
  // stream's Synchronize, Record and Wait, copies from and to plain host memory (pinned memory is
  // read and written by each replay), new device memory, and scratch memory that grows. An error of
  // the body is returned; the stream can be used after it as before.
  virtual Result<std::unique_ptr<Graph>> Capture(Stream& stream, Communicator* communicator,
                                                 const CaptureBody& body) = 0;
  // kUnimplemented where a device can't be measured.
  virtual Result<std::unique_ptr<CeilingMeter>> MakeCeilingMeter(const MeterOptions&) {
    return Status(StatusCode::kUnimplemented,
                  ToString(facts().id) + " has no measurement of its ceilings");
  }
  // The implementations of every op that this device has. This and CallObserver are what this
  // folder knows from above, and only as names: nothing here looks inside.
  virtual const ops::OpTable& ops() const = 0;
};

}  // namespace sluice::device
