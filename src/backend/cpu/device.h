// The CPU as a device: memory is host memory, streams run at once, ops run on one thread pool.
// Thread-safe but for the streams; see stream.h.
#pragma once

#include <memory>

#include "backend/cpu/isa.h"
#include "backend/cpu/thread_pool.h"
#include "device/backend.h"
#include "device/device.h"
#include "ops/op.h"

namespace sluice::cpu {

class CpuDevice : public device::Device {
 public:
  // REQUIRES: this CPU can run `isa`; threads >= 1 (more than the machine has is allowed here).
  CpuDevice(const CpuFacts& cpu, Isa isa, int threads);

  const device::DeviceFacts& facts() const override { return facts_; }
  Result<device::MemoryInfo> Memory() const override;
  // Every kind is host memory here: nothing needs to be pinned for a CPU.
  Result<device::Buffer> Allocate(size_t bytes, device::MemoryKind kind) override;
  void GiveBack(const device::View& view) override;
  Result<std::unique_ptr<device::Stream>> CreateStream() override;
  Result<std::unique_ptr<device::Event>> CreateEvent() override;
  Status Copy(device::Stream& stream, std::span<const device::CopyItem> items) override;
  Result<std::unique_ptr<device::Graph>> Capture(device::Stream& stream,
                                                 device::Communicator* communicator,
                                                 const device::CaptureBody& body) override;
  Result<std::unique_ptr<device::CeilingMeter>> MakeCeilingMeter(
      const device::MeterOptions& options) override;
  const ops::OpTable& ops() const override { return ops_; }
  // For tools that force an implementation by name, before anything is bound.
  ops::OpTable& mutable_ops() { return ops_; }

 private:
  device::DeviceFacts facts_;
  ThreadPool pool_;
  ops::OpTable ops_;
};

// The CPU backend has one device, index 0.
class CpuBackend : public device::Backend {
 public:
  device::DeviceKind kind() const override { return device::DeviceKind::kCpu; }
  std::vector<device::DeviceFacts> Probe(const device::VisibleDevices& visible) const override;
  // More threads than this process may use, an unknown instruction set and one that this CPU lacks
  // are errors that name the value and what is possible.
  Result<std::unique_ptr<device::Device>> Open(const device::VisibleDevices& visible, int index,
                                               const device::OpenOptions& options) const override;
};

// For backend/list.cc.
const device::Backend* BackendInstance();

}  // namespace sluice::cpu
