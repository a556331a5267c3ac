#include "backend/cuda/stream.h"

#include <utility>

#include "backend/cuda/counters.h"
#include "base/str_cat.h"

namespace sluice::cuda {

HostCalls::Call* HostCalls::Add(std::function<Status()> make, bool captured) {
  // The oldest is over first: there are no more than were ever under way at once.
  if (!captured && !once_.empty() && once_.front().over.load(std::memory_order_acquire)) {
    once_.splice(once_.end(), once_, once_.begin());
  } else {
    (captured ? captured_ : once_).emplace_back();
  }
  Call& call = (captured ? captured_ : once_).back();
  call.of = this;
  call.over.store(false, std::memory_order_relaxed);
  call.make = std::move(make);
  return &call;
}

void HostCalls::Make(void* data) {
  Call& call = *static_cast<Call*>(data);
  Status status = call.make();
  if (!status.ok()) {
    const std::lock_guard lock(call.of->mutex_);
    if (call.of->error_.ok()) call.of->error_ = std::move(status);
  }
  call.over.store(true, std::memory_order_release);  // `call` may be gone from here on
}

Status HostCalls::TakeError() {
  const std::lock_guard lock(mutex_);
  return std::exchange(error_, OkStatus());
}

Result<std::unique_ptr<device::Event>> CudaEvent::Create(Context* context, bool timed) {
  SLUICE_RETURN_IF_ERROR(context->Enter());
  CUevent event = nullptr;
  SLUICE_RETURN_IF_ERROR(
      Check(TheDriver().cuEventCreate(&event, timed ? CU_EVENT_DEFAULT : CU_EVENT_DISABLE_TIMING),
            "cuEventCreate"));
  return std::unique_ptr<device::Event>(new CudaEvent(context, event));
}

CudaEvent::~CudaEvent() {
  if (context_->Enter().ok()) TheDriver().cuEventDestroy(event_);
}

Status CudaEvent::Synchronize() {
  SLUICE_RETURN_IF_ERROR(context_->Enter());
  SLUICE_RETURN_IF_ERROR(Check(TheDriver().cuEventSynchronize(event_), "waiting for an event"));
  return calls_ == nullptr ? OkStatus() : calls_->TakeError();
}

bool CudaEvent::Done() {
  // Work that failed is done too; whoever synchronizes gets the error.
  return !context_->Enter().ok() || TheDriver().cuEventQuery(event_) != CUDA_ERROR_NOT_READY;
}

Result<double> CudaEvent::SecondsSince(device::Event& earlier) {
  SLUICE_RETURN_IF_ERROR(context_->Enter());
  float ms = 0;
  SLUICE_RETURN_IF_ERROR(
      Check(TheDriver().cuEventElapsedTime(&ms, static_cast<CudaEvent&>(earlier).handle(), event_),
            "the time between two events"));
  return ms * 1e-3;
}

Result<std::unique_ptr<device::Stream>> CudaStream::Create(const StreamHome& home,
                                                           bool checks_each_op) {
  SLUICE_RETURN_IF_ERROR(home.context->Enter());
  SLUICE_ASSIGN_OR_RETURN(  // new memory is zero
      device::Buffer counters,
      home.memory->Allocate(kCounters * sizeof(uint32_t), device::MemoryKind::kDevice));
  CUstream stream = nullptr;
  SLUICE_RETURN_IF_ERROR(
      Check(TheDriver().cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate"));
  return std::unique_ptr<device::Stream>(
      new CudaStream(home, stream, std::move(counters), checks_each_op));
}

CudaStream::~CudaStream() {
  if (!Enter().ok()) return;
  TheDriver().cuStreamSynchronize(stream_);
  TheDriver().cuStreamDestroy(stream_);
}

Status CudaStream::Call(CUresult result, std::string_view what) {
  ++counts_.host_calls;
  if (result == CUDA_SUCCESS) return OkStatus();
  const std::string history = last_kernel_ == nullptr
                                  ? "no kernel was launched before"
                                  : StrCat("the last kernel launched was ", last_kernel_->name);
  return ErrorOf(result, StrCat(device::ToString(facts().id), ": ", what, "; ", history));
}

Status CudaStream::Launched(CUresult result, const Kernel& kernel) {
  if (result != CUDA_SUCCESS) return Call(result, StrCat("launching ", kernel.name));
  ++counts_.host_calls;
  ++counts_.kernels;
  last_kernel_ = &kernel;
  return OkStatus();
}

Status CudaStream::CheckNotCapturing(std::string_view what) const {
  if (!capturing_) return OkStatus();
  return Status(
      StatusCode::kFailedPrecondition,
      StrCat(what, " while a graph is captured; captured work meets no host and no event"));
}

Status CudaStream::Synchronize() {
  SLUICE_RETURN_IF_ERROR(CheckNotCapturing("a wait for the stream"));
  SLUICE_RETURN_IF_ERROR(Enter());
  SLUICE_RETURN_IF_ERROR(Call(TheDriver().cuStreamSynchronize(stream_), "waiting for the stream"));
  return host_calls_->TakeError();
}

Status CudaStream::Record(device::Event& event) {
  SLUICE_RETURN_IF_ERROR(CheckNotCapturing("an event"));
  SLUICE_RETURN_IF_ERROR(Enter());
  auto& recorded = static_cast<CudaEvent&>(event);
  recorded.Follow(host_calls_);
  return Call(TheDriver().cuEventRecord(recorded.handle(), stream_), "recording an event");
}

Status CudaStream::Wait(device::Event& event) {
  SLUICE_RETURN_IF_ERROR(CheckNotCapturing("a wait for an event"));
  SLUICE_RETURN_IF_ERROR(Enter());
  const CUevent handle = static_cast<CudaEvent&>(event).handle();
  return Call(TheDriver().cuStreamWaitEvent(stream_, handle, CU_EVENT_WAIT_DEFAULT),
              "waiting for an event");
}

Status CudaStream::CallOnHost(std::function<Status()> call) {
  SLUICE_RETURN_IF_ERROR(Enter());
  HostCalls::Call* const added = host_calls_->Add(std::move(call), capturing_);
  Status status =
      Call(TheDriver().cuLaunchHostFunc(stream_, &HostCalls::Make, added), "a call of the host");
  if (!status.ok()) added->over.store(true, std::memory_order_release);  // nobody makes it
  return status;
}

void CudaStream::BeginCapture() {
  capturing_ = true;
  scratch_.Fix();  // what is captured holds its address
  before_capture_ = counts_;
}

uint64_t CudaStream::EndCapture() {
  capturing_ = false;
  const uint64_t kernels = counts_.kernels - before_capture_.kernels;
  counts_ = before_capture_;
  return kernels;
}

}  // namespace sluice::cuda
