// The specification of an accelerator. backend/<name> implements it. A Device outlives all that it
// made. Allocation and creation are thread-safe; a Stream belongs to one thread at a time.
#pragma once

#include <memory>
#include <span>

#include "device/ceilings.h"
#include "device/graph.h"
#include "device/types.h"
#include "sluice/status.h"

namespace sluice::ops {
class OpTable;
}

namespace sluice::device {

class Event {
 public:
  virtual ~Event() = default;
  virtual Status Synchronize() = 0;  // blocks the host until what was recorded is done
  virtual bool Done() = 0;
};

// Work in order. Errors of asynchronous work surface at Synchronize at the latest.
class Stream {
 public:
  virtual ~Stream() = default;
  virtual Status Synchronize() = 0;
  virtual Status Record(Event& event) = 0;
  virtual Status Wait(Event& event) = 0;  // later work of this stream waits; the host does not
};

// Owns a range of memory; frees it when destroyed. Move-only.
class Buffer {
 public:
  class Deleter {
   public:
    virtual ~Deleter() = default;
    virtual void Free(const View& view) = 0;
  };

  Buffer() = default;
  Buffer(View view, std::shared_ptr<Deleter> deleter) : view_(view), deleter_(std::move(deleter)) {}
  Buffer(Buffer&& other) noexcept { *this = std::move(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(view_, other.view_);
    std::swap(deleter_, other.deleter_);
    return *this;
  }
  ~Buffer() {
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

struct CopyItem {
  View destination;
  View source;  // source.bytes are copied
};

class Device {
 public:
  virtual ~Device() = default;
  virtual const DeviceFacts& facts() const = 0;
  virtual Result<MemoryInfo> Memory() const = 0;
  // Zeroed, aligned to 256 bytes. On the CPU large buffers take no memory until touched.
  virtual Result<Buffer> Allocate(size_t bytes, MemoryKind kind) = 0;
  virtual Result<std::unique_ptr<Stream>> CreateStream() = 0;
  virtual Result<std::unique_ptr<Event>> CreateEvent() = 0;
  // Copies all items in order on `stream`. Views of other devices, null views and a destination
  // smaller than its source are errors; items of zero bytes are skipped before any check. A copy to
  // host memory is visible when the call returns; other copies when the stream gets there.
  virtual Status Copy(Stream& stream, std::span<const CopyItem> items) = 0;
  // Graph capture; kUnimplemented where facts().graphs is kNone.
  virtual Result<std::unique_ptr<Graph>> Capture(Stream& stream, Communicator* communicator,
                                                 const CaptureBody& body) = 0;
  // kUnimplemented where a device can't be measured.
  virtual Result<std::unique_ptr<CeilingMeter>> MakeCeilingMeter(const MeterOptions&) {
    return Status(StatusCode::kUnimplemented,
                  ToString(facts().id) + " has no measurement of its ceilings");
  }
  // The implementations of every op that this device has.
  virtual const ops::OpTable& ops() const = 0;
};

}  // namespace sluice::device
