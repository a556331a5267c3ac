// An OpenCL device: memory is shared virtual memory that the host does not touch, a stream is an
// in-order queue. Thread-safe but for the streams; see stream.h.
#pragma once

#include <memory>

#include "backend/xpu/context.h"
#include "backend/xpu/graph.h"
#include "device/backend.h"
#include "device/device.h"
#include "ops/op.h"

namespace sluice::xpu {

struct XpuOptions {
  bool check_each_op = false;
  // For tests: how graphs are replayed where the driver leaves a choice.
  GraphMechanism graphs = GraphMechanism::kCommandBuffer;
  std::string cache_folder;  // of compiled programs; empty: none are kept
};

class XpuDevice : public device::Device {
 public:
  static Result<std::unique_ptr<XpuDevice>> Open(FoundDevice found, const XpuOptions& options);

  const device::DeviceFacts& facts() const override { return context_->facts(); }
  Result<device::MemoryInfo> Memory() const override;
  Result<device::Buffer> Allocate(size_t bytes, device::MemoryKind kind) override;
  Result<std::unique_ptr<device::Stream>> CreateStream() override;
  Result<std::unique_ptr<device::Event>> CreateEvent() override;
  Result<std::unique_ptr<device::Event>> CreateTimer() override;
  Status Copy(device::Stream& stream, std::span<const device::CopyItem> items) override;
  Result<std::unique_ptr<device::Graph>> Capture(device::Stream& stream,
                                                 device::Communicator* communicator,
                                                 const device::CaptureBody& body) override;
  const ops::OpTable& ops() const override { return ops_; }
  ops::OpTable& mutable_ops() { return ops_; }
  Programs& programs() { return context_->programs(); }
  size_t allocated_bytes() const { return context_->allocated_bytes(); }  // of device memory
  GraphMechanism graph_mechanism() const { return mechanism_; }

 private:
  XpuDevice(std::shared_ptr<Context> context, std::unique_ptr<device::Stream> own,
            const XpuOptions& options);

  const std::shared_ptr<Context> context_;
  const bool check_each_op_;
  const GraphMechanism mechanism_;
  std::mutex own_mutex_;
  std::unique_ptr<device::Stream> own_stream_;  // zeroes memory; guarded by own_mutex_
  ops::OpTable ops_;
};

class XpuBackend : public device::Backend {
 public:
  device::DeviceKind kind() const override { return device::DeviceKind::kXpu; }
  std::vector<device::DeviceFacts> Probe(const device::VisibleDevices& visible) const override;
  std::string WhyNoGpu() const override { return xpu::WhyNoGpu(); }
  std::string AbsentReason() const override { return WhyNoDevices(); }
  Result<std::unique_ptr<device::Device>> Open(const device::VisibleDevices& visible, int index,
                                               const device::OpenOptions& options) const override;
};

// For backend/list.cc.
const device::Backend* BackendInstance();

}  // namespace sluice::xpu
