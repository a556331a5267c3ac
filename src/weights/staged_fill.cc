#include "weights/staged_fill.h"

#include <algorithm>

#include "base/check.h"
#include "base/log.h"
#include "device/alignment.h"
#include "device/part.h"
#include "device/staging.h"

namespace sluice::weights {
namespace {

struct Piece {
  PartRows slice;
  device::View destination;
  size_t offset = 0;             // in the buffer
  bool completes_param = false;  // the last of its parameter
};

// What goes through a buffer at a time.
struct Batch {
  std::vector<Piece> pieces;
  size_t bytes = 0;
};

void AddPart(const PlannedParam& param, const PlannedPart& part, const StagedFillOptions& options,
             std::vector<Batch>* batches) {
  const int64_t unit = std::min(part.row_group, part.rows);
  const size_t unit_bytes = part.BytesOf({0, unit});
  device::View left = part.place;
  for (int64_t begin = 0; begin < part.rows;) {
    Batch& batch = batches->back();
    const size_t room = options.buffer_bytes - std::min(batch.bytes, options.buffer_bytes);
    const int64_t units = static_cast<int64_t>(room / unit_bytes);
    if (units == 0 && !batch.pieces.empty()) {
      batches->emplace_back();
      continue;
    }
    const int64_t rows = std::min<int64_t>(std::max<int64_t>(units, 1), part.rows) * unit;
    Piece piece{{&param, &part, {begin, std::min(begin + rows, part.rows)}}, left, batch.bytes};
    piece.destination.bytes = piece.slice.bytes();
    CHECK(piece.destination.bytes <= left.bytes, param.resolved.spec.name, ": rows ", begin, " to ",
          piece.slice.rows.end, " do not fit the part");
    left = device::Behind(left, piece.destination.bytes);
    begin = piece.slice.rows.end;
    batch.bytes += device::AlignUp(piece.destination.bytes);
    batch.pieces.push_back(piece);
  }
  CHECK(left.bytes == 0, param.resolved.spec.name, ": ", left.bytes, " bytes are not filled");
}

std::vector<Batch> PlanBatches(const std::vector<PlannedParam>& params,
                               const StagedFillOptions& options) {
  std::vector<Batch> batches(1);
  for (const PlannedParam& param : params) {
    if (param.bytes() == 0) continue;
    for (const PlannedPart& part : param.parts) AddPart(param, part, options, &batches);
    batches.back().pieces.back().completes_param = true;
  }
  return batches;
}

// Plain memory where the system refuses to pin as much.
Result<device::Buffer> AllocateBuffer(device::Device& device, size_t bytes) {
  Result<device::Buffer> buffer = device::AllocateStaging(device, bytes);
  if (buffer.ok() || !device.facts().pinned_memory) return buffer;
  LogWarning("weights are copied through memory that is not pinned, which is slower: ",
             buffer.status().message());
  return device.Allocate(bytes, device::MemoryKind::kHost);
}

class StagedFill {
 public:
  StagedFill(device::Device& device, const StagedFillOptions& options, std::vector<Batch> batches)
      : device_(device), options_(options), batches_(std::move(batches)) {}
  // Copies that an error left behind still read the buffers.
  ~StagedFill() {
    if (stream_ != nullptr) (void)stream_->Synchronize();
  }

  Status Run() {
    SLUICE_RETURN_IF_ERROR(Prepare());
    const size_t count = batches_.size();
    for (size_t i = 0; i < std::min(count, slots_.size()); ++i) Open(i);
    for (size_t i = 0; i < count; ++i) {
      SLUICE_RETURN_IF_ERROR(threads_->Wait());
      SLUICE_RETURN_IF_ERROR(Copy(i).WithContext("copying weights"));
      if (i == 0) continue;
      // While the copy just begun runs, the buffer before it is filled anew.
      SLUICE_RETURN_IF_ERROR(Retire(i - 1));
      if (i - 1 + slots_.size() < count) Open(i - 1 + slots_.size());
    }
    SLUICE_RETURN_IF_ERROR(Retire(count - 1));
    return stream_->Synchronize().WithContext("copying weights");
  }

 private:
  struct Slot {
    device::Buffer buffer;
    std::unique_ptr<device::Event> copied;
  };
  Slot& SlotOf(size_t batch) { return slots_[batch % slots_.size()]; }

  Status Prepare() {
    size_t bytes = 0;
    for (const Batch& batch : batches_) bytes = std::max(bytes, batch.bytes);
    slots_.resize(std::min(batches_.size(), kStagingBuffers));
    for (Slot& slot : slots_) {
      SLUICE_ASSIGN_OR_RETURN(slot.buffer, AllocateBuffer(device_, bytes));
      SLUICE_ASSIGN_OR_RETURN(slot.copied, device_.CreateEvent());
    }
    SLUICE_ASSIGN_OR_RETURN(stream_, device_.CreateStream());
    threads_ = std::make_unique<FillThreads>(PackThreads(device_), options_.filled);
    return OkStatus();
  }

  void Open(size_t index) {
    const Slot& slot = SlotOf(index);
    std::vector<FillJob> jobs;
    for (const Piece& piece : batches_[index].pieces) {
      AddFillJobs(piece.slice, {slot.buffer.data() + piece.offset, piece.destination.bytes},
                  index >= slots_.size(), &jobs);
    }
    threads_->Add(std::move(jobs));
  }

  Status Copy(size_t index) {
    const Slot& slot = SlotOf(index);
    items_.clear();
    for (const Piece& piece : batches_[index].pieces) {
      items_.push_back({piece.destination,
                        device::Part(slot.buffer.view(), piece.offset, piece.destination.bytes)});
    }
    SLUICE_RETURN_IF_ERROR(device_.Copy(*stream_, items_));
    return stream_->Record(*slot.copied);
  }

  Status Retire(size_t index) {
    SLUICE_RETURN_IF_ERROR(SlotOf(index).copied->Synchronize().WithContext("copying weights"));
    for (const Piece& piece : batches_[index].pieces) {
      if (piece.completes_param) options_.placed(*piece.slice.param);
    }
    return OkStatus();
  }

  device::Device& device_;
  const StagedFillOptions& options_;
  const std::vector<Batch> batches_;
  std::vector<Slot> slots_;
  std::vector<device::CopyItem> items_;
  std::unique_ptr<device::Stream> stream_;
  std::unique_ptr<FillThreads> threads_;  // last: they write the buffers
};

}  // namespace

Status FillThroughStaging(device::Device& device, const std::vector<PlannedParam>& params,
                          const StagedFillOptions& options) {
  std::vector<Batch> batches = PlanBatches(params, options);
  if (batches.front().pieces.empty()) return OkStatus();
  return StagedFill(device, options, std::move(batches)).Run();
}

}  // namespace sluice::weights
