#include "backend/cuda/graph.h"

#include "backend/cuda/copy/copy.h"
#include "base/str_cat.h"

namespace sluice::cuda {

Status ReplaySignature::Check(const device::ReplayParams& params) {
  if (!fixed_) {
    for (size_t i = 0; i < params.values.size(); ++i) {
      const auto& value = params.values[i];
      for (size_t j = 0; j < i; ++j) {
        if (params.values[j].name == value.name)
          return InvalidArgument(StrCat("a replay has two values called \"", value.name, "\""));
      }
      if (value.source.bytes != value.destination.bytes) {
        return InvalidArgument(StrCat("the replayed value \"", value.name, "\" has ",
                                      value.source.bytes, " bytes, its place ",
                                      value.destination.bytes));
      }
    }
    slots_.clear();
    for (const auto& value : params.values)
      slots_.push_back({value.name, value.destination.data, value.destination.bytes});
    fixed_ = true;
    return OkStatus();
  }
  for (size_t i = 0; i < slots_.size(); ++i) {
    const Slot& slot = slots_[i];
    if (i >= params.values.size() || params.values[i].name != slot.name) {
      return InvalidArgument(StrCat("a replay lacks the value \"", slot.name,
                                    "\" at its place in the order of the first replay"));
    }
    const auto& value = params.values[i];
    if (value.source.bytes != slot.bytes || value.destination.bytes != slot.bytes ||
        value.destination.data != slot.destination) {
      return InvalidArgument(StrCat("the replayed value \"", slot.name, "\" has ",
                                    value.source.bytes, " bytes, ", slot.bytes,
                                    " at the first replay, or goes elsewhere"));
    }
  }
  if (params.values.size() > slots_.size()) {
    return InvalidArgument(StrCat("the value \"", params.values[slots_.size()].name,
                                  "\" was not there at the first replay"));
  }
  return OkStatus();
}

Result<std::unique_ptr<device::Graph>> CudaGraph::Capture(CudaStream& stream,
                                                          const device::CaptureBody& body) {
  const Driver& driver = TheDriver();
  if (stream.capturing()) {
    return Status(StatusCode::kFailedPrecondition, "a graph is captured inside another");
  }
  const Context::Exclusive exclusive(stream.home().context, true);
  SLUICE_RETURN_IF_ERROR(stream.Enter());
  SLUICE_RETURN_IF_ERROR(
      stream.Call(driver.cuStreamBeginCapture(stream.handle(), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
                  "beginning a capture"));
  stream.BeginCapture();
  const Status done = body(stream);
  const uint64_t kernels = stream.EndCapture();
  CUgraph graph = nullptr;
  const Status ended =
      stream.Call(driver.cuStreamEndCapture(stream.handle(), &graph), "ending a capture");
  CUgraphExec exec = nullptr;
  Status made = done.ok() ? ended : done;
  if (made.ok())
    made = stream.Call(driver.cuGraphInstantiate(&exec, graph, 0), "preparing a captured graph");
  if (graph != nullptr) driver.cuGraphDestroy(graph);
  if (!made.ok()) return made;
  std::unique_ptr<device::Graph> result(new CudaGraph(&stream, exec, kernels));
  SLUICE_RETURN_IF_ERROR(
      stream.Call(driver.cuGraphUpload(exec, stream.handle()), "uploading a captured graph"));
  return result;
}

CudaGraph::~CudaGraph() {
  if (!stream_->Enter().ok()) return;
  TheDriver().cuGraphExecDestroy(exec_);
}

Status CudaGraph::Replay(device::Stream& stream, const device::ReplayParams& params) {
  if (&stream != stream_) {
    return InvalidArgument("a graph is replayed on another stream than it was captured on");
  }
  SLUICE_RETURN_IF_ERROR(signature_.Check(params));
  items_.clear();
  for (const auto& value : params.values) items_.push_back({value.destination, value.source});
  SLUICE_RETURN_IF_ERROR(device::PlanCopies(stream_->facts().id, items_, &runs_));
  SLUICE_RETURN_IF_ERROR(CopyRuns(*stream_, runs_));
  SLUICE_RETURN_IF_ERROR(stream_->Enter());
  SLUICE_RETURN_IF_ERROR(
      stream_->Call(TheDriver().cuGraphLaunch(exec_, stream_->handle()), "replaying a graph"));
  stream_->AddKernels(kernels_);
  return OkStatus();
}

}  // namespace sluice::cuda
