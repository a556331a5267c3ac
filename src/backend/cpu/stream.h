// The CPU's stream: work runs at once, on the calling thread and on the device's thread pool. One
// thread at a time may use a stream; streams of one device share its pool, so their work excludes
// one another there.
#pragma once

#include <cstdlib>
#include <functional>
#include <memory>

#include "device/device.h"

namespace sluice::cpu {

class ThreadPool;

// Done when recorded, since a stream never holds work back.
class CpuEvent : public device::Event {
 public:
  Status Synchronize() override { return OkStatus(); }
  bool Done() override { return true; }
};

class CpuStream : public device::Stream {
 public:
  // `pool` and `facts` belong to the device and outlive the stream.
  CpuStream(ThreadPool* pool, const device::DeviceFacts* facts) : pool_(pool), facts_(facts) {}

  Status Synchronize() override { return OkStatus(); }
  Status Record(device::Event&) override { return OkStatus(); }
  Status Wait(device::Event&) override { return OkStatus(); }
  Status CallOnHost(std::function<Status()> call) override { return call(); }

  ThreadPool& pool() const { return *pool_; }
  const device::DeviceFacts& facts() const { return *facts_; }

  // At least `bytes` of memory aligned to 64 for the op that runs now; the next call may give the
  // same memory. It is kept, so that a step like the one before allocates nothing; when it must
  // grow, the old memory is let go first. Null when there is not enough.
  std::byte* Scratch(size_t bytes) {
    if (bytes > scratch_bytes_) {
      scratch_.reset();
      scratch_bytes_ = (bytes + kScratchStep - 1) / kScratchStep * kScratchStep;
      scratch_.reset(static_cast<std::byte*>(std::aligned_alloc(64, scratch_bytes_)));
      if (scratch_ == nullptr) scratch_bytes_ = 0;
    }
    return scratch_.get();
  }

 private:
  static constexpr size_t kScratchStep = size_t{1} << 16;
  struct Free {
    void operator()(std::byte* p) const { std::free(p); }
  };

  ThreadPool* pool_;
  const device::DeviceFacts* facts_;
  std::unique_ptr<std::byte, Free> scratch_;
  size_t scratch_bytes_ = 0;
};

// REQUIRES: `stream` was made by a CPU device; kernels of this backend meet no other.
inline CpuStream& AsCpu(device::Stream& stream) { return static_cast<CpuStream&>(stream); }

}  // namespace sluice::cpu
