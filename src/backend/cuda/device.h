// One NVIDIA GPU. Thread-safe but for its streams.
#pragma once

#include <memory>

#include "backend/cuda/context.h"
#include "backend/cuda/kernels.h"
#include "backend/cuda/linear/cublaslt.h"
#include "backend/cuda/memory.h"
#include "device/backend.h"
#include "ops/op.h"

namespace sluice::cuda {

class CudaDevice : public device::Device {
 public:
  // `facts`: as CudaBackend::Probe gives them; facts.id.index is the driver's number too.
  static Result<std::unique_ptr<CudaDevice>> Create(device::DeviceFacts facts,
                                                    const device::OpenOptions& options);

  const device::DeviceFacts& facts() const override { return context_->facts(); }
  Result<device::MemoryInfo> Memory() const override { return memory_->Info(); }
  Result<device::Buffer> Allocate(size_t bytes, device::MemoryKind kind) override;
  Result<std::unique_ptr<device::Stream>> CreateStream() override;
  Result<std::unique_ptr<device::Event>> CreateEvent() override;
  Result<std::unique_ptr<device::Event>> CreateTimer() override;
  Status Copy(device::Stream& stream, std::span<const device::CopyItem> items) override;
  Result<std::unique_ptr<device::Graph>> Capture(device::Stream& stream,
                                                 device::Communicator* communicator,
                                                 const device::CaptureBody& body) override;
  const ops::OpTable& ops() const override { return ops_; }

 private:
  CudaDevice(std::unique_ptr<Context> context, bool checks_each_op);

  const std::unique_ptr<Context> context_;
  std::unique_ptr<cuda::Memory> memory_;
  Kernels kernels_;
  CublasLt cublaslt_;
  ops::OpTable ops_;
  const bool checks_each_op_;
};

// Devices are numbered as the driver numbers what CUDA_VISIBLE_DEVICES lets it see. The driver
// reads that variable once in the life of a process: the first Probe or Open decides.
class CudaBackend : public device::Backend {
 public:
  device::DeviceKind kind() const override { return device::DeviceKind::kCuda; }
  std::vector<device::DeviceFacts> Probe(const device::VisibleDevices& visible) const override;
  std::string AbsentReason() const override;
  std::vector<std::string> Libraries() const override;
  Result<std::unique_ptr<device::Device>> Open(const device::VisibleDevices& visible, int index,
                                               const device::OpenOptions& options) const override;
};

// For backend/list.cc.
const device::Backend* BackendInstance();

}  // namespace sluice::cuda
