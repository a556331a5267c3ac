// For tests: a device that breaks whatever a GPU would break. Its memory is unreadable for the host
// (reading or writing it is a segmentation fault), work is done as late as it may be (when the host
// waits for a stream or an event), pinned memory is read and written at that moment, ops refuse
// tensors that are not in device memory, and work that meets memory which is freed by then, or runs
// past its end, fails. Underneath, the CPU's implementations compute, so results equal the CPU's.
// It counts the calls that a driver would get. Any thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "device/backend.h"
#include "ops/op.h"

namespace sluice::ops {

class QueuedDevice : public device::Device {
 public:
  struct Options {
    bool pinned_memory = true;
    device::GraphSupport graphs = device::GraphSupport::kFull;
    size_t memory_bytes = size_t{1} << 30;
    bool check_each_op = false;
    bool captures_host_calls = true;
    std::string piecewise_op;  // an op that graphs cannot hold
    // Products and what makes their rows are the references, which say that they are fast. These
    // products take rows as codes where `takes_codes` says so.
    bool reference_products = false, takes_codes = false;
    // Its chains, which are the references, say that they are fast.
    bool chains = false;
    // Of a linear's call, for each row, beside what it says that it needs.
    int64_t scratch_excess = 0;
  };
  // What a driver would have been called for.
  struct Counts {
    int64_t copies = 0, ops = 0, replays = 0, captures = 0, records = 0, waits = 0, syncs = 0;
    // Waits for an event that had more work on its stream behind it.
    int64_t overlapped_waits = 0;
    int64_t host_calls = 0;                // put on streams or into graphs
    int64_t bytes_to_device = 0;           // of the copies
    int64_t allocations = 0;               // asked for, of memory of any kind
    std::map<std::string, int64_t> eager;  // of the ops, those outside of captures, by name
    int64_t sum() const { return copies + ops + replays + records + waits + syncs; }
  };

  QueuedDevice() : QueuedDevice(Options{}) {}
  explicit QueuedDevice(const Options& options);

  const device::DeviceFacts& facts() const override { return facts_; }
  const OpTable& ops() const override { return ops_; }
  Result<device::MemoryInfo> Memory() const override;
  Result<device::Buffer> Allocate(size_t bytes, device::MemoryKind kind) override;
  Result<std::unique_ptr<device::Stream>> CreateStream() override;
  // Timers tell when they were recorded, by this clock.
  double now_s = 0;
  Result<std::unique_ptr<device::Event>> CreateTimer() override { return CreateEvent(); }
  Result<std::unique_ptr<device::Event>> CreateEvent() override;
  Status Copy(device::Stream& stream, std::span<const device::CopyItem> items) override;
  Result<std::unique_ptr<device::Graph>> Capture(device::Stream& stream, device::Communicator*,
                                                 const device::CaptureBody& body) override;

  Counts counts() const;
  // The `nth` call of the op from now on (1: the next) fails when the device gets to it.
  void FailOp(std::string_view op, int nth = 1);
  // The same of the calls of the host, which then are not made.
  void FailHostCall(int nth = 1);
  static constexpr size_t kScratchOfRow = 100;
  size_t scratch_reserved = 0;  // of the last stream that was told to

  // What a test may look at after it has waited.
  std::vector<std::byte> Read(const device::View& view);

 private:
  using Work = std::function<Status()>;

  struct State;
  struct DeviceMemory;
  struct HostMemory;
  struct Queue;
  class QueuedEvent;
  class QueuedStream;
  class QueuedGraph;

  Status CaptureError(Queue* queue, std::string_view what);
  Status Push(device::Stream& stream, Work work);
  void RunUpTo(Queue* queue, uint64_t mark);
  // Every implementation of the CPU under its own name, so that Bind chooses alike.
  template <class Op, size_t... I>
  void MirrorList(std::index_sequence<I...>);
  template <class Op, size_t I>
  void MirrorOne();
  template <class Op, size_t I>
  static Status RunQueued(device::Stream& stream, const typename Op::Desc& desc,
                          const typename Op::Args& args);

  const bool checks_each_op_;
  const std::string piecewise_op_;
  const bool reference_products_;
  const bool chains_;
  const int64_t scratch_excess_;
  device::DeviceFacts facts_;
  OpTable ops_;
  std::unique_ptr<device::Device> cpu_;
  std::unique_ptr<device::Stream> cpu_stream_;
  const std::shared_ptr<State> state_;
  // Guarded by state_->mutex.
  int running_ = 0, capturing_ = 0;
  Counts counts_;
  std::string failing_op_;
  int fail_after_ = 0, host_call_fails_in_ = 0;
};

}  // namespace sluice::ops
