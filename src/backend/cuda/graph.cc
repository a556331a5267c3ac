#include "backend/cuda/graph.h"

#include "backend/cuda/copy/copy.h"

namespace sluice::cuda {

Result<std::unique_ptr<device::Graph>> CudaGraph::Capture(CudaStream& stream,
                                                          const device::CaptureBody& body) {
  const Driver& driver = TheDriver();
  if (stream.home().context->CapturesOnThisThread()) {
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
