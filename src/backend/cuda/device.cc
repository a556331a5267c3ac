#include "backend/cuda/device.h"

#include "backend/cuda/copy/copy.h"
#include "backend/cuda/graph.h"
#include "backend/cuda/ops.h"
#include "backend/cuda/probe.h"
#include "backend/cuda/stream.h"
#include "base/str_cat.h"
#include "device/copy_list.h"

namespace sluice::cuda {

Result<std::unique_ptr<CudaDevice>> CudaDevice::Create(device::DeviceFacts facts,
                                                       const device::OpenOptions& options) {
  const int ordinal = facts.id.index;
  // Waiting after each op is what a capture can't do.
  if (options.check_each_op) facts.graphs = device::GraphSupport::kNone;
  SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<Context> context, Context::Retain(ordinal, facts));
  std::unique_ptr<CudaDevice> made(new CudaDevice(std::move(context), options.check_each_op));
  SLUICE_ASSIGN_OR_RETURN(made->memory_, cuda::Memory::Create(made->context_.get()));
  SLUICE_RETURN_IF_ERROR(made->ops_.ForceAll(options.force_ops));
  return made;
}

CudaDevice::CudaDevice(std::unique_ptr<Context> context, bool checks_each_op)
    : context_(std::move(context)),
      kernels_(context_->device()),
      cublaslt_(context_.get()),
      ops_(&context_->facts()),
      checks_each_op_(checks_each_op) {
  RegisterCudaOps(ops_);
}

Result<device::Buffer> CudaDevice::Allocate(size_t bytes, device::MemoryKind kind) {
  return memory_->Allocate(bytes, kind);
}

Result<std::unique_ptr<device::Stream>> CudaDevice::CreateStream() {
  return CudaStream::Create({context_.get(), memory_.get(), &kernels_, &cublaslt_},
                            checks_each_op_);
}

Result<std::unique_ptr<device::Event>> CudaDevice::CreateEvent() {
  return CudaEvent::Create(context_.get(), /*timed=*/false);
}

Result<std::unique_ptr<device::Event>> CudaDevice::CreateTimer() {
  return CudaEvent::Create(context_.get(), /*timed=*/true);
}

Status CudaDevice::Copy(device::Stream& stream, std::span<const device::CopyItem> items) {
  thread_local std::vector<device::CopyRun> runs;  // kept, so that a step allocates nothing
  SLUICE_RETURN_IF_ERROR(device::PlanCopies(facts().id, items, &runs));
  return CopyRuns(AsCuda(stream), runs);
}

Result<std::unique_ptr<device::Graph>> CudaDevice::Capture(device::Stream& stream,
                                                           device::Communicator* communicator,
                                                           const device::CaptureBody& body) {
  if (communicator != nullptr) {
    return Status(StatusCode::kUnimplemented,
                  "a CUDA device captures no collectives; run without graphs");
  }
  if (facts().graphs == device::GraphSupport::kNone) {
    return Status(StatusCode::kUnimplemented, "no graph is captured while each op is checked");
  }
  return CudaGraph::Capture(AsCuda(stream), body);
}

std::vector<device::DeviceFacts> CudaBackend::Probe(const device::VisibleDevices& visible) const {
  return ProbeDevices(visible).devices;
}

std::string CudaBackend::AbsentReason() const {
  const ProbeResult last = LastProbe();
  return last.devices.empty() ? last.left_out : "";
}

std::vector<std::string> CudaBackend::Libraries() const { return {DescribeCublasLt()}; }

Result<std::unique_ptr<device::Device>> CudaBackend::Open(
    const device::VisibleDevices& visible, int index, const device::OpenOptions& options) const {
  const ProbeResult found = ProbeDevices(visible);
  for (const device::DeviceFacts& facts : found.devices) {
    if (facts.id.index != index) continue;
    SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<CudaDevice> device, CudaDevice::Create(facts, options));
    return std::unique_ptr<device::Device>(std::move(device));
  }
  return Status(StatusCode::kDevice,
                StrCat("CUDA device ", index, " does not exist; ", found.devices.size(),
                       " are usable", found.left_out.empty() ? "" : ": ", found.left_out),
                "device");
}

const device::Backend* BackendInstance() {
  static const CudaBackend backend;
  return &backend;
}

}  // namespace sluice::cuda
