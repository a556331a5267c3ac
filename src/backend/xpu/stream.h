// A stream is an in-order command queue. One thread at a time may use it. What it is told while a
// region is captured is recorded instead of run.
//
// Nothing that is put on the queue is waited for, so an error of it is found by the next
// Synchronize, or by that of an event recorded behind it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "backend/xpu/context.h"
#include "backend/xpu/launch_shape.h"
#include "backend/xpu/linear/chain.h"
#include "device/device.h"

namespace sluice::xpu {

// A value or a pointer to device memory, as a kernel takes it.
struct KernelArg {
  const void* data = nullptr;  // of the value; the pointer itself where bytes is 0
  size_t bytes = 0;
  bool is_null() const { return bytes == 0 && data == nullptr; }
};

struct KernelId {
  const char* program;   // ClSources' name
  const char* function;  // the kernel in it
};

// Where a caller keeps the kernel that a stream gave it, one for each program, function and
// options: a launch on the same stream with the same pointers null then looks nothing up.
struct KernelSlot {
  uint64_t stream = 0;  // XpuStream's number; 0: none yet
  uint64_t nulls = 0;   // by argument, whether it is a null pointer
  cl_kernel kernel = nullptr;
};

class XpuEvent : public device::Event {
 public:
  // `timed`: the driver tells when it happened, by the host's clock.
  explicit XpuEvent(std::shared_ptr<Context> context, bool timed = false)
      : context_(std::move(context)), timed_(timed) {}
  ~XpuEvent() override { Release(); }
  Status Synchronize() override;
  bool Done() override;
  Result<double> SecondsSince(device::Event& earlier) override;
  cl_event handle() const { return event_; }  // null: not recorded yet
  // Takes `event` over. `behind`: the last kernel before it, for messages; lives as long as the
  // program.
  Status Set(cl_event event, const char* behind);

 private:
  class Stamp;
  void Release();

  const std::shared_ptr<Context> context_;
  const bool timed_;
  cl_event event_ = nullptr;
  const char* behind_ = nullptr;  // null: none
  std::shared_ptr<Stamp> stamp_;  // of event_; null unless timed
};

// A kernel with its arguments set, and its size; or a copy that meets pinned memory.
struct RecordedLaunch {
  cl_kernel kernel = nullptr;  // owned by the recording; null: a copy
  const char* name = nullptr;  // of the kernel; lives as long as the program
  std::byte* destination = nullptr;
  const std::byte* source = nullptr;
  size_t bytes = 0;
  size_t global[3] = {1, 1, 1}, local[3] = {1, 1, 1};
  // What the next launch may take in; see linear/chain.h.
  std::optional<RowMaker> maker;
  std::optional<LinearChain> chain;
};

class XpuStream : public device::Stream {
 public:
  static Result<std::unique_ptr<device::Stream>> Create(std::shared_ptr<Context> context,
                                                        bool checks_each_op);
  ~XpuStream() override;

  Status Synchronize() override;
  Status Record(device::Event& event) override;
  Status Wait(device::Event& event) override;
  // Waits for the queue, and calls.
  Status CallOnHost(std::function<Status()> call) override;

  // Runs or records a kernel. No groups: nothing. `slot`: null where nobody keeps the kernel.
  Status Launch(const KernelId& id, std::string_view options, const LaunchShape& shape,
                std::span<const KernelArg> args, KernelSlot* slot = nullptr);
  // At least `bytes` for the op that runs now, aligned to 256; the next call may give the same
  // memory. kFailedPrecondition when it would have to grow while a region is captured.
  Status ReserveScratch(size_t bytes) override;
  Result<std::byte*> Scratch(size_t bytes);

  // Launches what was recorded. The kernel's arguments are those it was recorded with.
  Status Replay(const RecordedLaunch& launch);
  // A copy from or to pinned memory, for the recording. REQUIRES: recording().
  Status RecordCopy(std::byte* destination, const std::byte* source, size_t bytes);

  // Copies between the host and the device, and on it. `wait`: done when the call returns.
  // REQUIRES: not capturing.
  Status CopyBytes(std::byte* destination, const std::byte* source, size_t bytes, bool wait);
  // Host bytes that have been read when the call returns, though the copy is made later.
  Status CopyFromHost(std::byte* destination, const std::byte* source, size_t bytes);

  const std::shared_ptr<Context>& context() const { return context_; }
  cl_command_queue queue() const { return queue_; }
  // Launches recorded instead of run, from BeginRecording to EndRecording.
  bool recording() const { return recording_ != nullptr; }
  void BeginRecording(std::vector<RecordedLaunch>* launches);
  void EndRecording() { recording_ = nullptr; }
  // The last launch that was recorded; null where launches are run. What it is told of itself there
  // helps the next one to take it in.
  RecordedLaunch* last_recorded() {
    return recording_ == nullptr || recording_->empty() ? nullptr : &recording_->back();
  }
  // Takes the last launch back: the caller's next one does it in its stead.
  void DropLastRecorded();
  // Zeros that any_int8_linear_chain counts with, the same for all launches of the stream.
  Result<std::byte*> Counters();
  // What recorded launches point to.
  std::shared_ptr<OwnedMemory> scratch() const { return scratch_; }
  std::shared_ptr<OwnedMemory> counters() const { return counters_; }
  device::SubmitCounts counts() const override { return counts_; }
  // How often the host was stopped until the device was done; waits for events not counted.
  uint64_t waits() const { return waits_; }
  // Of a graph that was put on the queue as a whole.
  void NoteLast(const char* kernel) { last_kernel_ = kernel; }
  // One call of the driver that runs so many kernels.
  void Count(uint64_t kernels) {
    counts_.kernels += kernels;
    ++counts_.host_calls;
  }

 private:
  XpuStream(std::shared_ptr<Context> context, cl_command_queue queue, bool checks_each_op);
  Status CheckNotRecording(std::string_view what) const;
  Result<cl_kernel> MakeKernel(const KernelId& id, std::string_view options);
  // One for each choice of null pointers among the arguments.
  Result<cl_kernel> KeptKernel(const KernelId& id, std::string_view options,
                               std::span<const KernelArg> args, KernelSlot* slot);
  Result<std::byte*> Staging(size_t bytes);
  // Stops the host until all that is on the queue is done.
  Status Drain();

  // Host memory that copies are made from later; reused when its event says so.
  struct Stage {
    std::vector<std::byte> bytes;
    size_t used = 0;
    cl_event event = nullptr;  // after the last copy from it; null: none since it was emptied
  };

  const std::shared_ptr<Context> context_;
  const cl_command_queue queue_;
  const uint64_t number_;  // of all streams of the process, from 1
  std::unordered_map<std::string, cl_kernel> kernels_;
  std::string kernel_key_;  // kept, so that a launch allocates nothing
  std::shared_ptr<OwnedMemory> scratch_, counters_;
  bool scratch_reserved_ = false;
  std::vector<RecordedLaunch>* recording_ = nullptr;
  Stage stages_[4];
  size_t stage_ = 0;
  device::SubmitCounts counts_;
  uint64_t waits_ = 0;
  const char* last_kernel_ = nullptr;  // that was put on the queue, for messages; null: none yet
};

// REQUIRES: `stream` was made by a device of this backend; kernels of it meet no other.
inline XpuStream& AsXpu(device::Stream& stream) { return static_cast<XpuStream&>(stream); }

}  // namespace sluice::xpu
