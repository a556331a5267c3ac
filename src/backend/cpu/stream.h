// The CPU's stream: work runs at once, on the calling thread and on the device's thread pool. One
// thread at a time may use a stream; streams of one device share its pool, so their work excludes
// one another there.
#pragma once

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

  ThreadPool& pool() const { return *pool_; }
  const device::DeviceFacts& facts() const { return *facts_; }

 private:
  ThreadPool* pool_;
  const device::DeviceFacts* facts_;
};

// REQUIRES: `stream` was made by a CPU device; kernels of this backend meet no other.
inline CpuStream& AsCpu(device::Stream& stream) { return static_cast<CpuStream&>(stream); }

}  // namespace sluice::cpu
