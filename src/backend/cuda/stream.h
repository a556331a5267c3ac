// Streams and events over the driver's. One thread at a time may use a stream.
#pragma once

#include <atomic>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>

#include "backend/cuda/context.h"
#include "backend/cuda/kernels.h"
#include "backend/cuda/memory.h"
#include "device/device.h"
#include "device/scratch.h"

namespace sluice::cuda {

class CublasLt;

// What a stream needs of its device, which outlives it.
struct StreamHome {
  Context* context = nullptr;
  Memory* memory = nullptr;
  Kernels* kernels = nullptr;
  CublasLt* cublaslt = nullptr;
};

// Calls of the host that a stream was given. The driver makes them on a thread of its own, where
// nobody may call the driver. Any thread.
class HostCalls {
 public:
  // It is kept until another takes its place, which may be when it was made. One that is captured
  // is kept as long as this object: a graph may call it at any time, and there are as many as the
  // graphs hold.
  struct Call {
    HostCalls* of = nullptr;
    std::function<Status()> make;
    std::atomic<bool> over = false;
  };
  Call* Add(std::function<Status()> make, bool captured);
  // The driver's entry.
  static void CUDA_CB Make(void* call);
  // The first error of a call since the last one was taken.
  Status TakeError();

 private:
  std::mutex mutex_;
  std::list<Call> once_, captured_;  // by the thread of the stream alone
  Status error_;                     // guarded by mutex_
};

class CudaEvent : public device::Event {
 public:
  static Result<std::unique_ptr<device::Event>> Create(Context* context, bool timed);
  ~CudaEvent() override;
  Status Synchronize() override;
  bool Done() override;
  Result<double> SecondsSince(device::Event& earlier) override;
  CUevent handle() const { return event_; }
  // It was recorded on a stream with these calls.
  void Follow(std::shared_ptr<HostCalls> calls) { calls_ = std::move(calls); }

 private:
  CudaEvent(Context* context, CUevent event) : context_(context), event_(event) {}
  Context* const context_;
  const CUevent event_;
  std::shared_ptr<HostCalls> calls_;  // null: never recorded
};

class CudaStream : public device::Stream {
 public:
  static Result<std::unique_ptr<device::Stream>> Create(const StreamHome& home,
                                                        bool checks_each_op);
  ~CudaStream() override;

  // An error of any earlier work names the kernel that was launched last.
  Status Synchronize() override;
  Status Record(device::Event& event) override;
  Status Wait(device::Event& event) override;
  Status CallOnHost(std::function<Status()> call) override;
  device::SubmitCounts counts() const override { return counts_; }

  Status Enter() const { return home_.context->Enter(); }
  CUstream handle() const { return stream_; }
  const StreamHome& home() const { return home_; }
  const device::DeviceFacts& facts() const { return home_.context->facts(); }
  Status ReserveScratch(size_t bytes) override { return scratch_.Reserve(bytes); }
  Result<std::byte*> Scratch(size_t bytes) { return scratch_.Take(bytes); }
  uint32_t* counters() const { return reinterpret_cast<uint32_t*>(counters_.data()); }

  // A call of the driver on this stream. An error gets the stream's history as context.
  Status Call(CUresult result, std::string_view what);
  // As Call, of a kernel's launch.
  Status Launched(CUresult result, const Kernel& kernel);
  KnownKernels& known_kernels() { return known_kernels_; }
  void AddKernels(uint64_t kernels) { counts_.kernels += kernels; }

  // Between the two, work is recorded instead of done, and counted in captured_kernels() alone.
  void BeginCapture();
  // The kernels that were captured.
  uint64_t EndCapture();
  bool capturing() const { return capturing_; }

 private:
  CudaStream(const StreamHome& home, CUstream stream, device::Buffer counters, bool checks_each_op)
      : Stream(checks_each_op),
        home_(home),
        stream_(stream),
        counters_(std::move(counters)),
        scratch_([memory = home.memory](size_t bytes) {
          return memory->Allocate(bytes, device::MemoryKind::kDevice);
        }) {}

  Status CheckNotCapturing(std::string_view what) const;

  const StreamHome home_;
  const CUstream stream_;
  const device::Buffer counters_;  // counters.h
  const Kernel* last_kernel_ = nullptr;
  KnownKernels known_kernels_;
  device::SubmitCounts counts_;
  bool capturing_ = false;
  device::SubmitCounts before_capture_;
  device::ScratchMemory scratch_;
  const std::shared_ptr<HostCalls> host_calls_ = std::make_shared<HostCalls>();
};

// REQUIRES: `stream` was made by a CUDA device.
inline CudaStream& AsCuda(device::Stream& stream) { return static_cast<CudaStream&>(stream); }

}  // namespace sluice::cuda
