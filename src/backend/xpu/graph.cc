#include "backend/xpu/graph.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/str_cat.h"
#include "device/replay_signature.h"

namespace sluice::xpu {
namespace {

class XpuGraph : public device::Graph {
 public:
  XpuGraph(device::Device& device, XpuStream& stream)
      : device_(device), stream_(stream), context_(stream.context()) {}
  ~XpuGraph() override {
    if (replayed_) Cl().Finish(stream_.queue());
    if (buffer_ != nullptr) context_->command_buffers().release(buffer_);
    for (const RecordedLaunch& launch : launches_) {
      if (launch.kernel != nullptr) Cl().ReleaseKernel(launch.kernel);
    }
    if (capture_queue_ != nullptr) context_->ReleaseQueue(capture_queue_);
  }

  Status Record(const device::CaptureBody& body) {
    stream_.BeginRecording(&launches_);
    const Status status = body(stream_);
    stream_.EndRecording();
    scratch_ = stream_.scratch();
    counters_ = stream_.counters();
    return status;
  }

  // What was recorded as a command buffer. After an error, and where there are copies that meet
  // pinned memory, which no command buffer holds, the graph replays single launches.
  Status Finalize() {
    const auto copies = [](const RecordedLaunch& launch) { return launch.kernel == nullptr; };
    if (launches_.empty() || std::any_of(launches_.begin(), launches_.end(), copies))
      return OkStatus();
    const Status status = MakeBuffer();
    if (!status.ok() && buffer_ != nullptr) context_->command_buffers().release(buffer_);
    if (!status.ok()) buffer_ = nullptr;
    return status;
  }

  Status Replay(device::Stream& stream, const device::ReplayParams& params) override {
    if (&stream != &stream_) {
      return InvalidArgument("a graph is replayed on another stream than it was captured on");
    }
    SLUICE_RETURN_IF_ERROR(signature_.Check(params));
    copies_.clear();
    for (const device::ReplayParams::Value& value : params.values)
      copies_.push_back({value.destination, value.source});
    SLUICE_RETURN_IF_ERROR(device_.Copy(stream, copies_));
    replayed_ = true;
    if (buffer_ != nullptr) {
      cl_command_queue queue = stream_.queue();
      stream_.Count(launches_.size());
      stream_.NoteLast(launches_.back().name);
      return Check(context_->command_buffers().enqueue(1, &queue, buffer_, 0, nullptr, nullptr),
                   "clEnqueueCommandBufferKHR");
    }
    for (const RecordedLaunch& launch : launches_) SLUICE_RETURN_IF_ERROR(stream_.Replay(launch));
    return OkStatus();
  }

 private:
  Status MakeBuffer() {
    const CommandBufferApi& api = context_->command_buffers();
    SLUICE_ASSIGN_OR_RETURN(capture_queue_, context_->CreateQueue());
    // A replay may be put on the queue while the one before still runs.
    const cl_command_buffer_properties_khr properties[] = {
        CL_COMMAND_BUFFER_FLAGS_KHR, CL_COMMAND_BUFFER_SIMULTANEOUS_USE_KHR, 0};
    cl_int error = CL_SUCCESS;
    buffer_ = api.create(1, &capture_queue_, properties, &error);
    SLUICE_RETURN_IF_ERROR(Check(error, "clCreateCommandBufferKHR"));
    cl_sync_point_khr before = 0;
    for (size_t i = 0; i < launches_.size(); ++i) {
      const RecordedLaunch& launch = launches_[i];
      const cl_uint waits = i == 0 ? 0 : 1;
      cl_sync_point_khr point = 0;
      error = api.add_kernel(buffer_, nullptr, nullptr, launch.kernel, 3, nullptr, launch.global,
                             launch.local, waits, waits == 0 ? nullptr : &before, &point, nullptr);
      SLUICE_RETURN_IF_ERROR(Check(error, StrCat("clCommandNDRangeKernelKHR of ", launch.name)));
      before = point;
    }
    return Check(api.finalize(buffer_), "clFinalizeCommandBufferKHR");
  }

  device::Device& device_;
  XpuStream& stream_;
  const std::shared_ptr<Context> context_;
  std::vector<RecordedLaunch> launches_;
  std::shared_ptr<OwnedMemory> scratch_, counters_;
  cl_command_queue capture_queue_ = nullptr;
  cl_command_buffer_khr buffer_ = nullptr;
  device::ReplaySignature signature_;
  bool replayed_ = false;
  std::vector<device::CopyItem> copies_;  // kept, so that a replay allocates nothing
};

}  // namespace

Result<std::unique_ptr<device::Graph>> CaptureGraph(device::Device& device, XpuStream& stream,
                                                    GraphMechanism mechanism,
                                                    const device::CaptureBody& body) {
  auto graph = std::make_unique<XpuGraph>(device, stream);
  SLUICE_RETURN_IF_ERROR(graph->Record(body));
  if (mechanism == GraphMechanism::kCommandBuffer) {
    const Status status = graph->Finalize();
    if (!status.ok() && stream.context()->TellOfNoCommandBuffers()) {
      LogWarning("graphs are replayed launch by launch: ", status.message());
    }
  }
  return std::unique_ptr<device::Graph>(std::move(graph));
}

}  // namespace sluice::xpu
