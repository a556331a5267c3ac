#include "backend/xpu/copy/copy.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "backend/xpu/kernel_support.h"
#include "backend/xpu/launch.h"
#include "base/str_cat.h"
#include "device/copy_list.h"

namespace sluice::xpu {
namespace {

using device::CopyRun;
using device::MemoryKind;

// As any_copy.cl has them.
constexpr size_t kRunsPerLaunch = 16, kPieceBytes = 4096;
constexpr int kItemsOnGpu = 64;

bool OnHost(MemoryKind memory) {
  return memory == MemoryKind::kHost || memory == MemoryKind::kPinned;
}
bool MeetsHost(const CopyRun& run) {
  return OnHost(run.destination_memory) || OnHost(run.source_memory);
}

// Runs that stay on the device and are apart, gathered for one launch.
class Gathered {
 public:
  explicit Gathered(XpuStream& stream) : stream_(stream) {}
  // Launches first when there is no more room.
  Status Add(const CopyRun& run) {
    if (count_ == kRunsPerLaunch) SLUICE_RETURN_IF_ERROR(Launch());
    const bool rows = run.rows > 1;
    pieces_ += run.rows * ((run.row_bytes + kPieceBytes - 1) / kPieceBytes);
    runs_[count_++] = {run.destination,
                       run.source,
                       run.row_bytes,
                       rows ? run.destination_stride : 0,
                       rows ? run.source_stride : 0,
                       pieces_};
    return OkStatus();
  }
  Status Launch() {
    if (count_ == 0) return OkStatus();
    for (size_t i = count_; i < kRunsPerLaunch; ++i) runs_[i] = {.end = pieces_};
    const int items = ItemsFor(stream_.context()->facts(), kItemsOnGpu);
    LaunchShape shape;
    shape.groups[0] = pieces_;
    shape.items = static_cast<size_t>(items);
    count_ = pieces_ = 0;
    options_ = StrCat("-D ITEMS=", items);
    return stream_.Launch({"copy/any_copy", "copy_runs"}, options_, shape, Args());
  }

 private:
  struct Run {
    std::byte* to = nullptr;
    const std::byte* from = nullptr;
    uint64_t row_bytes = 0, to_stride = 0, from_stride = 0, end = 0;
  };
  std::span<const KernelArg> Args() {
    size_t next = 0;
    for (const Run& run : runs_) {
      for (const KernelArg& arg : {ArgOf(run.to), ArgOf(run.from), ArgOf(run.row_bytes),
                                   ArgOf(run.to_stride), ArgOf(run.from_stride), ArgOf(run.end)}) {
        args_[next++] = arg;
      }
    }
    return args_;
  }

  XpuStream& stream_;
  std::array<Run, kRunsPerLaunch> runs_;
  std::array<KernelArg, kRunsPerLaunch * 6> args_;
  size_t count_ = 0;
  uint64_t pieces_ = 0;
  std::string options_;
};

// Runs of one batch that stay on the device: a single one by the driver's own copy, several by one
// kernel.
Status CopyOnDevice(XpuStream& stream, std::span<const CopyRun> batch) {
  const auto on_device = [](const CopyRun& run) { return !MeetsHost(run); };
  const auto first = std::find_if(batch.begin(), batch.end(), on_device);
  if (first == batch.end()) return OkStatus();
  const bool alone = std::find_if(first + 1, batch.end(), on_device) == batch.end();
  if (alone && first->rows == 1 && !stream.recording())
    return stream.CopyBytes(first->destination, first->source, first->row_bytes, false);
  Gathered gathered(stream);
  for (const CopyRun& run : batch) {
    if (on_device(run)) SLUICE_RETURN_IF_ERROR(gathered.Add(run));
  }
  return gathered.Launch();
}

Status CopyWithHost(XpuStream& stream, const CopyRun& run, bool* wait) {
  const bool to_host = OnHost(run.destination_memory), from_host = OnHost(run.source_memory);
  for (size_t row = 0; row < run.rows; ++row) {
    std::byte* const to = run.destination + row * run.destination_stride;
    const std::byte* const from = run.source + row * run.source_stride;
    if (stream.recording()) {
      SLUICE_RETURN_IF_ERROR(stream.RecordCopy(to, from, run.row_bytes));
    } else if (to_host && from_host) {
      // In the stream's order: an earlier copy may write what this one reads.
      if (row == 0) SLUICE_RETURN_IF_ERROR(stream.Synchronize());
      std::memcpy(to, from, run.row_bytes);
    } else if (!to_host && run.source_memory == MemoryKind::kHost) {
      SLUICE_RETURN_IF_ERROR(stream.CopyFromHost(to, from, run.row_bytes));
    } else {
      SLUICE_RETURN_IF_ERROR(stream.CopyBytes(to, from, run.row_bytes, false));
      *wait |= run.destination_memory == MemoryKind::kHost;
    }
  }
  return OkStatus();
}

Status CheckCaptured(const XpuStream& stream, std::span<const CopyRun> runs) {
  if (!stream.recording()) return OkStatus();
  for (const CopyRun& run : runs) {
    if (run.destination_memory != MemoryKind::kHost && run.source_memory != MemoryKind::kHost)
      continue;
    return Status(StatusCode::kFailedPrecondition,
                  StrCat("a copy of ", run.rows * run.row_bytes,
                         " bytes from or to plain host memory can't be captured; give it to the "
                         "replay or use pinned memory"));
  }
  return OkStatus();
}

}  // namespace

Status CopyItems(device::DeviceId id, XpuStream& stream, std::span<const device::CopyItem> items) {
  thread_local std::vector<CopyRun> runs;  // kept, so that a step allocates nothing
  SLUICE_RETURN_IF_ERROR(device::PlanCopies(id, items, &runs));
  SLUICE_RETURN_IF_ERROR(CheckCaptured(stream, runs));
  bool wait = false;
  for (size_t begin = 0, end = 0; begin < runs.size(); begin = end) {
    while (end < runs.size() && runs[end].batch == runs[begin].batch) ++end;
    const std::span<const CopyRun> batch(&runs[begin], end - begin);
    // What an earlier batch writes to host memory is there before that is read.
    const bool reads_host = std::any_of(batch.begin(), batch.end(), [](const CopyRun& run) {
      return run.source_memory == MemoryKind::kHost;
    });
    if (wait && reads_host) {
      SLUICE_RETURN_IF_ERROR(stream.Synchronize());
      wait = false;
    }
    SLUICE_RETURN_IF_ERROR(CopyOnDevice(stream, batch));
    for (const CopyRun& run : batch) {
      if (MeetsHost(run)) SLUICE_RETURN_IF_ERROR(CopyWithHost(stream, run, &wait));
    }
  }
  return wait ? stream.Synchronize() : OkStatus();
}

}  // namespace sluice::xpu
