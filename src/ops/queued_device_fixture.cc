#include "ops/queued_device_fixture.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <utility>

#include "base/check.h"
#include "device/copy_list.h"
#include "device/replay_signature.h"
#include "device/scratch.h"
#include "ops/all_ops.h"
#include "ops/tensors_of_fixture.h"

namespace sluice::ops {
namespace {

constexpr size_t kImplementationsMax = 16;

Status Astray(std::string_view what) {
  return Status(StatusCode::kInternal, StrCat(what, ": memory that is not the device's"));
}

// Linears pretend to need this much for each row.
template <class Op>
size_t ScratchOf(const typename Op::Desc&, const StepLimits& limits, const device::DeviceFacts&) {
  return static_cast<size_t>(std::max(limits.tokens, limits.logits_rows)) *
         QueuedDevice::kScratchOfRow;
}

}  // namespace

// Outlives the device as long as a buffer does.
struct QueuedDevice::State {
  struct Memory {
    size_t bytes = 0, mapped = 0;
  };
  void Protect(int access) {
    for (const auto& [data, memory] : buffers) mprotect(data, memory.mapped, access);
  }
  bool Holds(const std::byte* data, size_t bytes) const {
    auto at = buffers.upper_bound(const_cast<std::byte*>(data));
    if (at == buffers.begin()) return false;
    --at;
    const auto offset = static_cast<size_t>(data - at->first);
    return offset <= at->second.bytes && bytes <= at->second.bytes - offset;
  }
  bool Holds(const Tensor& tensor) const {
    if (tensor.size() == 0 || IsQuantized(tensor.dtype)) return true;
    int64_t last = 0;
    for (int i = 0; i < tensor.rank; ++i) last += (tensor.dims[i] - 1) * tensor.strides[i];
    return Holds(tensor.data, RowBytes(tensor.dtype, static_cast<size_t>(last + 1)));
  }
  mutable std::recursive_mutex mutex;
  std::map<std::byte*, Memory> buffers;
  size_t used = 0;
};

struct QueuedDevice::DeviceMemory : device::Buffer::Deleter {
  explicit DeviceMemory(std::shared_ptr<State> owner) : state(std::move(owner)) {}
  void Free(const device::View& view) override {
    std::lock_guard lock(state->mutex);
    const auto found = state->buffers.find(view.data);
    state->used -= found->second.mapped;
    munmap(view.data, found->second.mapped);
    state->buffers.erase(found);
  }
  const std::shared_ptr<State> state;
};

struct QueuedDevice::HostMemory : device::Buffer::Deleter {
  void Free(const device::View& view) override { std::free(view.data); }
};

struct QueuedDevice::Queue {
  std::deque<Work> work;
  uint64_t pushed = 0, done = 0;
  device::SubmitCounts submitted;
  std::vector<Work>* recording = nullptr;  // of a capture
  Status capture_error, error;
};

class QueuedDevice::QueuedEvent : public device::Event {
 public:
  explicit QueuedEvent(QueuedDevice* owner) : device(owner) {}
  Status Synchronize() override {
    std::lock_guard lock(device->state_->mutex);
    ++device->counts_.syncs;
    if (queue == nullptr) return OkStatus();
    device->counts_.overlapped_waits += queue->pushed > mark;
    device->RunUpTo(queue.get(), mark);
    return std::exchange(queue->error, OkStatus());
  }
  bool Done() override {
    std::lock_guard lock(device->state_->mutex);
    // Who asks again and again sees the work being done.
    if (queue != nullptr && queue->done < mark && ++asked % 3 == 0) {
      device->RunUpTo(queue.get(), mark);
    }
    return queue == nullptr || queue->done >= mark;
  }
  Result<double> SecondsSince(device::Event& earlier) override {
    return at_s - static_cast<QueuedEvent&>(earlier).at_s;
  }
  QueuedDevice* const device;
  std::shared_ptr<Queue> queue;  // null: never recorded
  uint64_t mark = 0;
  int asked = 0;
  double at_s = 0;
};

class QueuedDevice::QueuedStream : public device::Stream {
 public:
  explicit QueuedStream(QueuedDevice* owner)
      : Stream(owner->checks_each_op_),
        device(owner),
        queue(new Queue),
        scratch([owner](size_t bytes) {
          return owner->Allocate(bytes, device::MemoryKind::kDevice);
        }) {}
  Status ReserveScratch(size_t bytes) override {
    device->scratch_reserved = bytes;
    return scratch.Reserve(bytes);
  }
  ~QueuedStream() override {
    std::lock_guard lock(device->state_->mutex);
    device->RunUpTo(queue.get(), queue->pushed);
  }
  Status Synchronize() override {
    std::lock_guard lock(device->state_->mutex);
    ++device->counts_.syncs;
    if (queue->recording != nullptr) return device->CaptureError(queue.get(), "a host wait");
    device->RunUpTo(queue.get(), queue->pushed);
    return std::exchange(queue->error, OkStatus());
  }
  Status Record(device::Event& event) override {
    std::lock_guard lock(device->state_->mutex);
    ++device->counts_.records;
    if (queue->recording != nullptr) return device->CaptureError(queue.get(), "an event");
    static_cast<QueuedEvent&>(event).queue = queue;
    static_cast<QueuedEvent&>(event).mark = queue->pushed;
    static_cast<QueuedEvent&>(event).asked = 0;
    static_cast<QueuedEvent&>(event).at_s = device->now_s;
    return OkStatus();
  }
  Status Wait(device::Event& event) override {
    std::lock_guard lock(device->state_->mutex);
    ++device->counts_.waits;
    if (queue->recording != nullptr) return device->CaptureError(queue.get(), "an event");
    const auto& queued = static_cast<QueuedEvent&>(event);
    if (queued.queue == nullptr) return OkStatus();
    return device->Push(*this, [owner = device, other = queued.queue, mark = queued.mark] {
      owner->RunUpTo(other.get(), mark);
      return OkStatus();
    });
  }
  // The call finds the device's memory as closed as a host finds it.
  Status CallOnHost(std::function<Status()> call) override {
    std::lock_guard lock(device->state_->mutex);
    ++device->counts_.host_calls;
    if (queue->recording != nullptr && !device->facts_.captures_host_calls) {
      return device->CaptureError(queue.get(), "a call of the host");
    }
    return device->Push(*this, [device = device, call = std::move(call)] {
      if (device->host_call_fails_in_ > 0 && --device->host_call_fails_in_ == 0)
        return Status(StatusCode::kDevice, "a call of the host failed");
      device->state_->Protect(PROT_NONE);
      Status status = call();
      device->state_->Protect(PROT_READ | PROT_WRITE);
      return status;
    });
  }
  device::SubmitCounts counts() const override {
    std::lock_guard lock(device->state_->mutex);
    return queue->submitted;
  }
  QueuedDevice* const device;
  const std::shared_ptr<Queue> queue;
  device::ScratchMemory scratch;
};

class QueuedDevice::QueuedGraph : public device::Graph {
 public:
  QueuedGraph(QueuedStream& stream, std::vector<Work> work)
      : stream_(stream), work_(std::make_shared<std::vector<Work>>(std::move(work))) {}
  Status Replay(device::Stream& stream, const device::ReplayParams& params) override;

 private:
  QueuedStream& stream_;
  const std::shared_ptr<std::vector<Work>> work_;
  device::ReplaySignature signature_;
};

Status QueuedDevice::CaptureError(Queue* queue, std::string_view what) {
  queue->capture_error = Status(StatusCode::kFailedPrecondition, StrCat(what, " inside a capture"));
  return queue->capture_error;
}
Status QueuedDevice::Push(device::Stream& stream, Work work) {
  std::lock_guard lock(state_->mutex);
  Queue& queue = *static_cast<QueuedStream&>(stream).queue;
  if (queue.recording != nullptr) {
    queue.recording->push_back(std::move(work));
    return OkStatus();
  }
  queue.work.push_back(std::move(work));
  ++queue.pushed;
  return OkStatus();
}
// The first error stays with the queue until somebody waits for it.
void QueuedDevice::RunUpTo(Queue* queue, uint64_t mark) {
  if (running_++ == 0) state_->Protect(PROT_READ | PROT_WRITE);
  while (queue->done < mark && !queue->work.empty()) {
    Work work = std::move(queue->work.front());
    queue->work.pop_front();
    ++queue->done;
    Status status = work();
    if (!status.ok() && queue->error.ok()) queue->error = std::move(status);
  }
  if (--running_ == 0) state_->Protect(PROT_NONE);
}

template <class Op, size_t... I>
void QueuedDevice::MirrorList(std::index_sequence<I...>) {
  CHECK(cpu_->ops().List<Op>().size() <= sizeof...(I), "more implementations than expected");
  (MirrorOne<Op, I>(), ...);
}
template <class Op, size_t I>
void QueuedDevice::MirrorOne() {
  const auto& list = cpu_->ops().List<Op>();
  if (I >= list.size()) return;
  const auto graphs =
      piecewise_op_ == Op::kName ? device::GraphSupport::kPiecewise : device::GraphSupport::kFull;
  const bool fast =
      (reference_products_ && (std::is_same_v<Op, Linear> || std::is_same_v<Op, GroupedLinear>)) ||
      (chains_ && (std::is_same_v<Op, DenseChain> || std::is_same_v<Op, ExpertsChain> ||
                   std::is_same_v<Op, NormedRopeKv>));
  ops_.Add<Op>({list[I].name, list[I].supports, &RunQueued<Op, I>, list[I].arithmetic, graphs,
                fast ? nullptr : list[I].slow,
                std::is_same_v<Op, Linear> ? &ScratchOf<Op> : nullptr});
  if (const auto* packing = cpu_->ops().Attached<LinearPacking>(list[I].name)) {
    ops_.Attach(list[I].name, *packing);
  }
}
template <class Op, size_t I>
Status QueuedDevice::RunQueued(device::Stream& stream, const typename Op::Desc& desc,
                               const typename Op::Args& args) {
  QueuedDevice* const device = static_cast<QueuedStream&>(stream).device;
  for (const Tensor* tensor : TensorsOf(args)) {
    if (tensor->size() == 0 || tensor->memory == device::MemoryKind::kDevice) continue;
    return InvalidArgument(StrCat(Op::kName, ": a tensor is not in device memory"));
  }
  if constexpr (std::is_same_v<Op, Linear>) {
    const int64_t rows = args.x.dims[0];
    const int64_t bytes = rows * (int64_t{kScratchOfRow} + device->scratch_excess_);
    SLUICE_RETURN_IF_ERROR(
        static_cast<QueuedStream&>(stream).scratch.Take(static_cast<size_t>(bytes)).status());
  }
  {
    std::lock_guard lock(device->state_->mutex);
    ++device->counts_.ops;
    Queue& queue = *static_cast<QueuedStream&>(stream).queue;
    if (queue.recording == nullptr) {
      ++queue.submitted.kernels;
      device->counts_.eager[std::string(Op::kName)]++;
    } else if (device->piecewise_op_ == Op::kName ||
               (device->facts_.graphs == device::GraphSupport::kPiecewise &&
                Op::kName == Attention::kName)) {
      return device->CaptureError(&queue, Op::kName);
    }
  }
  return device->Push(stream, [device, desc, args]() -> Status {
    if (device->failing_op_ == Op::kName && device->fail_after_ > 0 && --device->fail_after_ == 0) {
      return Status(StatusCode::kDevice, StrCat(Op::kName, " failed on the device"));
    }
    for (const Tensor* tensor : TensorsOf(args)) {
      if (!device->state_->Holds(*tensor)) return Astray(Op::kName);
    }
    return device->cpu_->ops().List<Op>()[I].run(*device->cpu_stream_, desc, args);
  });
}

QueuedDevice::QueuedDevice(const Options& options)
    : checks_each_op_(options.check_each_op),
      piecewise_op_(options.piecewise_op),
      reference_products_(options.reference_products),
      chains_(options.chains),
      scratch_excess_(options.scratch_excess),
      ops_(&facts_),
      state_(new State) {
  for (const device::Backend* backend : device::LinkedBackends()) {
    if (backend->kind() != device::DeviceKind::kCpu) continue;
    cpu_ = std::move(backend->Open({}, 0, {.threads = 1}).value());
  }
  cpu_stream_ = std::move(cpu_->CreateStream().value());
  facts_ = cpu_->facts();
  facts_.id = {device::DeviceKind::kCuda, 3};
  facts_.name = "a queued device";
  facts_.device_memory = facts_.runs_beside_host = true;
  facts_.shares_host_memory = false;
  facts_.host_threads = 0;
  facts_.pinned_memory = options.pinned_memory;
  facts_.graphs = checks_each_op_ ? device::GraphSupport::kNone : options.graphs;
  facts_.captures_host_calls = options.captures_host_calls;
  facts_.memory_bytes = options.memory_bytes;
  AllOps::ForEach(
      [this]<class Op>() { MirrorList<Op>(std::make_index_sequence<kImplementationsMax>()); });
  if (options.reference_products) {
    CHECK(ops_.ForceAll("linear=ref_linear,grouped_linear=ref_grouped_linear,norm=ref_norm,"
                        "gated_activation=ref_gated_activation,qk_norm=ref_qk_norm,"
                        "rope_kv=ref_rope_kv")
              .ok());
  }
  for (const char* name : {"ref_linear", "ref_grouped_linear"}) {
    if (options.takes_codes) ops_.Attach(name, TakesCodedRows{});
  }
}

Result<std::unique_ptr<device::Stream>> QueuedDevice::CreateStream() {
  return std::unique_ptr<device::Stream>(std::make_unique<QueuedStream>(this));
}

Result<std::unique_ptr<device::Event>> QueuedDevice::CreateEvent() {
  return std::unique_ptr<device::Event>(std::make_unique<QueuedEvent>(this));
}

Result<device::MemoryInfo> QueuedDevice::Memory() const {
  std::lock_guard lock(state_->mutex);
  return device::MemoryInfo{facts_.memory_bytes, facts_.memory_bytes - state_->used};
}

QueuedDevice::Counts QueuedDevice::counts() const {
  std::lock_guard lock(state_->mutex);
  return counts_;
}

void QueuedDevice::FailOp(std::string_view op, int nth) {
  std::lock_guard lock(state_->mutex);
  failing_op_ = op;
  fail_after_ = nth;
}

void QueuedDevice::FailHostCall(int nth) {
  std::lock_guard lock(state_->mutex);
  host_call_fails_in_ = nth;
}

std::vector<std::byte> QueuedDevice::Read(const device::View& view) {
  std::lock_guard lock(state_->mutex);
  state_->Protect(PROT_READ | PROT_WRITE);
  std::vector<std::byte> bytes(view.data, view.data + view.bytes);
  state_->Protect(PROT_NONE);
  return bytes;
}

Result<device::Buffer> QueuedDevice::Allocate(size_t bytes, device::MemoryKind kind) {
  std::lock_guard lock(state_->mutex);
  ++counts_.allocations;
  if (kind == device::MemoryKind::kShared) {
    return Status(StatusCode::kUnimplemented, "no memory that the host shares");
  }
  if (bytes > facts_.memory_bytes) {
    return Status(StatusCode::kOutOfMemory, StrCat(bytes, " bytes of ", facts_.memory_bytes));
  }
  if (kind == device::MemoryKind::kPinned && !facts_.pinned_memory) {
    kind = device::MemoryKind::kHost;
  }
  constexpr size_t kPage = 4096;
  const size_t rounded = (std::max<size_t>(bytes, 1) + kPage - 1) / kPage * kPage;
  if (kind != device::MemoryKind::kDevice) {
    device::View view{static_cast<std::byte*>(std::aligned_alloc(kPage, rounded)), bytes, kind, {}};
    std::memset(view.data, 0, rounded);
    return device::Buffer(view, std::make_shared<HostMemory>());
  }
  if (capturing_ > 0) {
    return Status(StatusCode::kFailedPrecondition, "an allocation inside a capture");
  }
  if (rounded > facts_.memory_bytes - state_->used) {
    return Status(StatusCode::kOutOfMemory,
                  StrCat(bytes, " bytes of ", facts_.memory_bytes - state_->used, " free"));
  }
  void* const data = mmap(nullptr, rounded, running_ > 0 ? PROT_READ | PROT_WRITE : PROT_NONE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(data != MAP_FAILED, "no memory");
  state_->used += rounded;
  state_->buffers[static_cast<std::byte*>(data)] = {bytes, rounded};
  return device::Buffer({static_cast<std::byte*>(data), bytes, kind, facts_.id},
                        std::make_shared<DeviceMemory>(state_));
}

Status QueuedDevice::Copy(device::Stream& stream, std::span<const device::CopyItem> items) {
  std::vector<device::CopyRun> runs;
  SLUICE_RETURN_IF_ERROR(device::PlanCopies(facts_.id, items, &runs));
  std::lock_guard lock(state_->mutex);
  auto& queued = static_cast<QueuedStream&>(stream);
  bool wait = false;
  for (device::CopyRun run : runs) {
    ++counts_.copies;
    if (run.destination_memory == device::MemoryKind::kDevice) {
      counts_.bytes_to_device += static_cast<int64_t>(run.rows * run.row_bytes);
    }
    std::vector<std::byte> read;  // plain host memory is read now, all else when its turn comes
    if (run.source_memory == device::MemoryKind::kHost) {
      if (queued.queue->recording != nullptr) {
        return CaptureError(queued.queue.get(), "a copy of plain host memory");
      }
      // What an earlier item writes there is there first.
      if (wait) RunUpTo(queued.queue.get(), queued.queue->pushed);
      const size_t stride = run.rows > 1 ? run.source_stride : run.row_bytes;
      read.assign(run.source, run.source + (run.rows - 1) * stride + run.row_bytes);
    }
    wait |= run.destination_memory == device::MemoryKind::kHost;
    SLUICE_RETURN_IF_ERROR(Push(stream, [run, read = std::move(read), state = state_.get()] {
      const auto astray = [&](device::MemoryKind memory, const std::byte* data, size_t stride) {
        return memory == device::MemoryKind::kDevice &&
               !state->Holds(data, (run.rows > 1 ? (run.rows - 1) * stride : 0) + run.row_bytes);
      };
      if (astray(run.source_memory, run.source, run.source_stride) ||
          astray(run.destination_memory, run.destination, run.destination_stride)) {
        return Astray("a copy");
      }
      const std::byte* source = read.empty() ? run.source : read.data();
      for (size_t row = 0; row < run.rows; ++row) {
        std::memcpy(run.destination + row * run.destination_stride,
                    source + row * run.source_stride, run.row_bytes);
      }
      return OkStatus();
    }));
  }
  return wait ? stream.Synchronize() : OkStatus();
}

Result<std::unique_ptr<device::Graph>> QueuedDevice::Capture(device::Stream& stream,
                                                             device::Communicator* communicator,
                                                             const device::CaptureBody& body) {
  std::lock_guard lock(state_->mutex);
  if (facts_.graphs == device::GraphSupport::kNone || communicator != nullptr) {
    return Status(StatusCode::kUnimplemented, "no graphs here");
  }
  if (capturing_ > 0) {
    return Status(StatusCode::kFailedPrecondition, "a graph is captured inside another");
  }
  Queue& queue = *static_cast<QueuedStream&>(stream).queue;
  std::vector<Work> work;
  queue.recording = &work;
  queue.capture_error = OkStatus();
  ++capturing_;
  Status status = body(stream);
  --capturing_;
  queue.recording = nullptr;
  ++counts_.captures;
  if (status.ok()) status = queue.capture_error;
  SLUICE_RETURN_IF_ERROR(status);
  return std::unique_ptr<device::Graph>(
      std::make_unique<QueuedGraph>(static_cast<QueuedStream&>(stream), std::move(work)));
}

Status QueuedDevice::QueuedGraph::Replay(device::Stream& stream,
                                         const device::ReplayParams& params) {
  QueuedDevice* const owner = stream_.device;
  std::lock_guard lock(owner->state_->mutex);
  if (&stream != &stream_) return InvalidArgument("a replay on another stream");
  SLUICE_RETURN_IF_ERROR(signature_.Check(params));
  for (const auto& value : params.values) {
    const device::CopyItem item{value.destination, value.source};
    SLUICE_RETURN_IF_ERROR(owner->Copy(stream, {&item, 1}));
  }
  ++owner->counts_.replays;
  stream_.queue->submitted.kernels += work_->size();
  return owner->Push(stream, [work = work_]() -> Status {
    for (const Work& part : *work) SLUICE_RETURN_IF_ERROR(part());
    return OkStatus();
  });
}

}  // namespace sluice::ops
