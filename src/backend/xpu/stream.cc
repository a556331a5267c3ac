#include "backend/xpu/stream.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <optional>

#include "base/clock.h"
#include "base/str_cat.h"

namespace sluice::xpu {
namespace {

constexpr size_t kStageBytes = size_t{1} << 20;
constexpr size_t kScratchStep = size_t{1} << 20;
constexpr size_t kCounterBytes = 4096;

Status SetArgs(cl_kernel kernel, std::string_view name, std::span<const KernelArg> args) {
  for (size_t i = 0; i < args.size(); ++i) {
    const cl_uint index = static_cast<cl_uint>(i);
    cl_int error = CL_SUCCESS;
    if (args[i].bytes > 0) {
      error = Cl().SetKernelArg(kernel, index, args[i].bytes, args[i].data);
    } else if (!args[i].is_null()) {
      error = Cl().SetKernelArgSVMPointer(kernel, index, args[i].data);
    } else {
      // Null is a value of memory objects alone: given as shared memory, NVIDIA's driver takes the
      // argument for one that was never set. So does it once an argument has been given both ways,
      // for which KeptKernel sees to it that none is.
      error = Cl().SetKernelArg(kernel, index, sizeof(cl_mem), nullptr);
    }
    if (error != CL_SUCCESS) return ErrorOf(error, StrCat("argument ", i, " of ", name));
  }
  return OkStatus();
}

// `kernel`: the last before what was waited for; null: none.
std::string Waiting(std::string_view what, const char* kernel) {
  return StrCat("waiting for ", what,
                kernel == nullptr ? "" : StrCat("; the last kernel launched was ", kernel));
}

uint64_t NextNumber() {
  static std::atomic<uint64_t> last = 0;
  return ++last;
}

}  // namespace

Status XpuEvent::Synchronize() {
  if (event_ == nullptr) return OkStatus();
  const cl_int error = Cl().WaitForEvents(1, &event_);
  return error == CL_SUCCESS ? OkStatus() : ErrorOf(error, Waiting("an event", behind_));
}

bool XpuEvent::Done() {
  if (event_ == nullptr) return true;
  cl_int status = CL_COMPLETE;
  Cl().GetEventInfo(event_, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, nullptr);
  return status <= CL_COMPLETE;  // below: it failed, as Synchronize tells
}

void XpuEvent::Release() {
  if (event_ != nullptr) Cl().ReleaseEvent(event_);
  event_ = nullptr;
}

// When an event happened. The driver's thread writes it, maybe a little after whoever waited for
// the event goes on.
class XpuEvent::Stamp {
 public:
  // The driver calls this once, with a shared_ptr<Stamp> of its own.
  static void CL_CALLBACK Put(cl_event, cl_int, void* data) {
    const std::unique_ptr<std::shared_ptr<Stamp>> stamp(static_cast<std::shared_ptr<Stamp>*>(data));
    {
      const std::lock_guard lock((*stamp)->mutex_);
      (*stamp)->at_us_ = NowMicros();
    }
    (*stamp)->put_.notify_all();
  }
  // Nothing when the driver does not say.
  std::optional<int64_t> Get() {
    constexpr auto kPatience = std::chrono::seconds(1);
    std::unique_lock lock(mutex_);
    put_.wait_for(lock, kPatience, [&] { return at_us_.has_value(); });
    return at_us_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable put_;
  std::optional<int64_t> at_us_;  // guarded by mutex_
};

Status XpuEvent::Set(cl_event event, const char* behind) {
  Release();
  event_ = event;
  behind_ = behind;
  if (!timed_) return OkStatus();
  stamp_ = std::make_shared<Stamp>();
  auto own = std::make_unique<std::shared_ptr<Stamp>>(stamp_);
  SLUICE_RETURN_IF_ERROR(Check(Cl().SetEventCallback(event_, CL_COMPLETE, &Stamp::Put, own.get()),
                               "clSetEventCallback"));
  (void)own.release();  // the driver's from here on
  return OkStatus();
}

Result<double> XpuEvent::SecondsSince(device::Event& earlier) {
  const std::shared_ptr<Stamp>& before = static_cast<XpuEvent&>(earlier).stamp_;
  const Status unknown(StatusCode::kUnimplemented, "the time of an event is not known");
  if (stamp_ == nullptr || before == nullptr) return unknown;
  const std::optional<int64_t> from = before->Get(), to = stamp_->Get();
  if (!from || !to) return unknown;
  return (*to - *from) * 1e-6;
}

Result<std::unique_ptr<device::Stream>> XpuStream::Create(std::shared_ptr<Context> context,
                                                          bool checks_each_op) {
  SLUICE_ASSIGN_OR_RETURN(const cl_command_queue queue, context->CreateQueue());
  return std::unique_ptr<device::Stream>(new XpuStream(std::move(context), queue, checks_each_op));
}

XpuStream::XpuStream(std::shared_ptr<Context> context, cl_command_queue queue, bool checks_each_op)
    : Stream(checks_each_op), context_(std::move(context)), queue_(queue), number_(NextNumber()) {}

XpuStream::~XpuStream() {
  Cl().Finish(queue_);
  for (Stage& stage : stages_) {
    if (stage.event != nullptr) Cl().ReleaseEvent(stage.event);
  }
  for (const auto& [key, kernel] : kernels_) Cl().ReleaseKernel(kernel);
  context_->ReleaseQueue(queue_);
}

Status XpuStream::CheckNotRecording(std::string_view what) const {
  if (!recording()) return OkStatus();
  return Status(
      StatusCode::kFailedPrecondition,
      StrCat(what, " while a graph is captured; captured work meets no host and no event"));
}

Status XpuStream::Synchronize() {
  SLUICE_RETURN_IF_ERROR(CheckNotRecording("a wait for the stream"));
  return Drain();
}

// clFinish need not tell that a command failed; what lies behind the command in the queue does.
Status XpuStream::Drain() {
  ++waits_;
  cl_event marker = nullptr;
  cl_int error = Cl().EnqueueMarkerWithWaitList(queue_, 0, nullptr, &marker);
  if (error == CL_SUCCESS) error = Cl().Finish(queue_);
  cl_int status = CL_COMPLETE;
  if (error == CL_SUCCESS)
    error = Cl().GetEventInfo(marker, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status,
                              nullptr);
  if (marker != nullptr) Cl().ReleaseEvent(marker);
  if (error == CL_SUCCESS && status < 0) error = status;
  return error == CL_SUCCESS ? OkStatus() : ErrorOf(error, Waiting("the stream", last_kernel_));
}

Status XpuStream::Record(device::Event& event) {
  SLUICE_RETURN_IF_ERROR(CheckNotRecording("an event"));
  cl_event marker = nullptr;
  SLUICE_RETURN_IF_ERROR(Check(Cl().EnqueueMarkerWithWaitList(queue_, 0, nullptr, &marker),
                               "clEnqueueMarkerWithWaitList"));
  SLUICE_RETURN_IF_ERROR(static_cast<XpuEvent&>(event).Set(marker, last_kernel_));
  return Check(Cl().Flush(queue_), "clFlush");
}

Status XpuStream::Wait(device::Event& event) {
  SLUICE_RETURN_IF_ERROR(CheckNotRecording("a wait for an event"));
  const cl_event marker = static_cast<XpuEvent&>(event).handle();
  if (marker == nullptr) return OkStatus();
  return Check(Cl().EnqueueBarrierWithWaitList(queue_, 1, &marker, nullptr),
               "clEnqueueBarrierWithWaitList");
}

Status XpuStream::CallOnHost(std::function<Status()> call) {
  SLUICE_RETURN_IF_ERROR(CheckNotRecording("a call of the host"));
  SLUICE_RETURN_IF_ERROR(Drain());
  return call();
}

Result<cl_kernel> XpuStream::MakeKernel(const KernelId& id, std::string_view options) {
  SLUICE_ASSIGN_OR_RETURN(const cl_program program, context_->programs().Get(id.program, options));
  cl_int error = CL_SUCCESS;
  const cl_kernel kernel = Cl().CreateKernel(program, id.function, &error);
  SLUICE_RETURN_IF_ERROR(Check(error, StrCat("clCreateKernel of ", id.function)));
  return kernel;
}

Result<cl_kernel> XpuStream::KeptKernel(const KernelId& id, std::string_view options,
                                        std::span<const KernelArg> args, KernelSlot* slot) {
  constexpr size_t kArgsMax = 64;
  uint64_t nulls = 0;
  if (args.size() > kArgsMax) slot = nullptr;
  for (size_t i = 0; slot != nullptr && i < args.size(); ++i) {
    nulls |= uint64_t{args[i].is_null()} << i;
  }
  if (slot != nullptr && slot->stream == number_ && slot->nulls == nulls) return slot->kernel;
  kernel_key_.assign(id.program).append(1, ' ').append(id.function).append(1, ' ').append(options);
  kernel_key_.append(1, ' ');
  for (const KernelArg& arg : args) kernel_key_.append(1, arg.is_null() ? '0' : '1');
  auto found = kernels_.find(kernel_key_);
  if (found == kernels_.end()) {
    SLUICE_ASSIGN_OR_RETURN(const cl_kernel kernel, MakeKernel(id, options));
    found = kernels_.emplace(kernel_key_, kernel).first;
  }
  if (slot != nullptr) *slot = {number_, nulls, found->second};
  return found->second;
}

Status XpuStream::Launch(const KernelId& id, std::string_view options, const LaunchShape& shape,
                         std::span<const KernelArg> args, KernelSlot* slot) {
  if (shape.groups.empty()) return OkStatus();
  RecordedLaunch launch;
  launch.name = id.function;
  for (size_t i = 0; i < 3; ++i) {
    launch.local[i] = i == 0 ? shape.items : 1;
    launch.global[i] = shape.groups[i] * launch.local[i];
  }
  if (recording_ != nullptr) {
    // A kernel of its own: where a driver records arguments by reference, the next call of the same
    // kernel would change them.
    SLUICE_ASSIGN_OR_RETURN(launch.kernel, MakeKernel(id, options));
    recording_->push_back(launch);
    return SetArgs(launch.kernel, id.function, args);
  }
  SLUICE_ASSIGN_OR_RETURN(launch.kernel, KeptKernel(id, options, args, slot));
  SLUICE_RETURN_IF_ERROR(SetArgs(launch.kernel, id.function, args));
  return Replay(launch);
}

Status XpuStream::Replay(const RecordedLaunch& launch) {
  if (launch.kernel == nullptr)
    return CopyBytes(launch.destination, launch.source, launch.bytes, false);
  Count(1);
  last_kernel_ = launch.name;
  return Check(Cl().EnqueueNDRangeKernel(queue_, launch.kernel, 3, nullptr, launch.global,
                                         launch.local, 0, nullptr, nullptr),
               launch.name);
}

Status XpuStream::RecordCopy(std::byte* destination, const std::byte* source, size_t bytes) {
  RecordedLaunch copy;
  copy.destination = destination;
  copy.source = source;
  copy.bytes = bytes;
  recording_->push_back(std::move(copy));
  return OkStatus();
}

void XpuStream::BeginRecording(std::vector<RecordedLaunch>* launches) { recording_ = launches; }

void XpuStream::DropLastRecorded() {
  Cl().ReleaseKernel(recording_->back().kernel);
  recording_->pop_back();
}

Result<std::byte*> XpuStream::Counters() {
  if (counters_ != nullptr) return counters_->data();
  SLUICE_ASSIGN_OR_RETURN(const Context::Memory memory, context_->Allocate(kCounterBytes));
  counters_ = std::make_shared<OwnedMemory>(context_, memory, kCounterBytes);
  const uint32_t zero = 0;
  SLUICE_RETURN_IF_ERROR(Check(Cl().EnqueueSVMMemFill(queue_, memory.data, &zero, sizeof zero,
                                                      kCounterBytes, 0, nullptr, nullptr),
                               "clEnqueueSVMMemFill"));
  // Also while a graph is recorded: it takes launches, not what lies on the queue.
  SLUICE_RETURN_IF_ERROR(Drain());
  return counters_->data();
}

Status XpuStream::ReserveScratch(size_t bytes) {
  SLUICE_RETURN_IF_ERROR(Scratch(bytes).status());
  scratch_reserved_ = true;
  return OkStatus();
}

Result<std::byte*> XpuStream::Scratch(size_t bytes) {
  if (scratch_ != nullptr && scratch_->bytes() >= bytes) return scratch_->data();
  if (recording() || scratch_reserved_) {
    return Status(StatusCode::kFailedPrecondition,
                  StrCat("an op needs ", bytes,
                         " bytes of scratch memory after it was reserved or while its graph is "
                         "captured; reserve what the largest shape needs"));
  }
  const size_t rounded = (bytes + kScratchStep - 1) / kScratchStep * kScratchStep;
  scratch_.reset();  // graphs that use it hold it themselves
  SLUICE_ASSIGN_OR_RETURN(const Context::Memory memory, context_->Allocate(rounded));
  scratch_ = std::make_shared<OwnedMemory>(context_, memory, rounded);
  return scratch_->data();
}

Status XpuStream::CopyBytes(std::byte* destination, const std::byte* source, size_t bytes,
                            bool wait) {
  Count(0);
  waits_ += wait ? 1 : 0;
  return Check(Cl().EnqueueSVMMemcpy(queue_, wait ? CL_TRUE : CL_FALSE, destination, source, bytes,
                                     0, nullptr, nullptr),
               "clEnqueueSVMMemcpy");
}

Result<std::byte*> XpuStream::Staging(size_t bytes) {
  Stage* stage = &stages_[stage_];
  if (stage->used + bytes > kStageBytes) {
    SLUICE_RETURN_IF_ERROR(
        Check(Cl().EnqueueMarkerWithWaitList(queue_, 0, nullptr, &stage->event), "staging memory"));
    SLUICE_RETURN_IF_ERROR(Check(Cl().Flush(queue_), "clFlush"));
    stage_ = (stage_ + 1) % std::size(stages_);
    stage = &stages_[stage_];
    if (stage->event != nullptr) {
      ++waits_;
      SLUICE_RETURN_IF_ERROR(Check(Cl().WaitForEvents(1, &stage->event), "staging memory"));
      Cl().ReleaseEvent(stage->event);
      stage->event = nullptr;
    }
    stage->used = 0;
  }
  if (stage->bytes.empty()) stage->bytes.resize(kStageBytes);
  std::byte* data = stage->bytes.data() + stage->used;
  stage->used += (bytes + 63) / 64 * 64;
  return data;
}

Status XpuStream::CopyFromHost(std::byte* destination, const std::byte* source, size_t bytes) {
  // Larger ones are worth waiting for: weights while they load.
  if (bytes > kStageBytes / 4) return CopyBytes(destination, source, bytes, true);
  SLUICE_ASSIGN_OR_RETURN(std::byte* const stage, Staging(bytes));
  std::memcpy(stage, source, bytes);
  return CopyBytes(destination, stage, bytes, false);
}

}  // namespace sluice::xpu
