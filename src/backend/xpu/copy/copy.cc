#include "backend/xpu/copy/copy.h"

#include <algorithm>
#include <cstring>

#include "backend/xpu/launch.h"
#include "base/str_cat.h"
#include "device/copy_list.h"

namespace sluice::xpu {
namespace {

using device::CopyRun;
using device::MemoryKind;

bool OnHost(MemoryKind memory) {
  return memory == MemoryKind::kHost || memory == MemoryKind::kPinned;
}

// What one work-item moves at a time, at most: the largest power of two that divides everything.
size_t UnitOf(const CopyRun& run) {
  const size_t bits = reinterpret_cast<uintptr_t>(run.source) |
                      reinterpret_cast<uintptr_t>(run.destination) | run.row_bytes |
                      (run.rows > 1 ? run.source_stride | run.destination_stride : 0);
  return bits % 16 == 0 ? 16 : bits % 4 == 0 ? 4 : 1;
}

// Rows on the device, by one launch whatever their number.
Status CopyByKernel(XpuStream& stream, const CopyRun& run) {
  constexpr size_t kPieceBytes = 4096;  // of a row, by one work-group
  const size_t unit = UnitOf(run);
  const char* function = unit == 16 ? "copy_16" : unit == 4 ? "copy_4" : "copy_1";
  LaunchShape shape;
  shape.groups[0] = (run.row_bytes + kPieceBytes - 1) / kPieceBytes;
  shape.groups[1] = run.rows;
  return Launch(stream, {"copy/any_copy", function}, "", shape, run.destination, run.source,
                static_cast<uint64_t>(run.row_bytes / unit),
                static_cast<uint64_t>(run.destination_stride / unit),
                static_cast<uint64_t>(run.source_stride / unit),
                static_cast<uint64_t>(kPieceBytes / unit));
}

Status CopyOnDevice(XpuStream& stream, const CopyRun& run) {
  if (run.rows == 1 && !stream.recording())
    return stream.CopyBytes(run.destination, run.source, run.row_bytes, false);
  return CopyByKernel(stream, run);
}

Status CopyWithHost(XpuStream& stream, const CopyRun& run, bool* wait) {
  const bool to_host = OnHost(run.destination_memory);
  for (size_t row = 0; row < run.rows; ++row) {
    std::byte* const to = run.destination + row * run.destination_stride;
    const std::byte* const from = run.source + row * run.source_stride;
    if (to_host && OnHost(run.source_memory)) {
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

}  // namespace

Status CopyItems(device::DeviceId id, XpuStream& stream, std::span<const device::CopyItem> items) {
  thread_local std::vector<CopyRun> runs;  // kept, so that a step allocates nothing
  SLUICE_RETURN_IF_ERROR(device::PlanCopies(id, items, &runs));
  bool wait = false;
  int batch = 0;
  for (const CopyRun& run : runs) {
    const bool host = OnHost(run.destination_memory) || OnHost(run.source_memory);
    if (host && stream.recording()) {
      return Status(StatusCode::kFailedPrecondition,
                    "a copy from or to host memory can't be captured; give it to the replay");
    }
    // What an earlier item writes to host memory is there before that is read.
    if (wait && run.batch != batch && run.source_memory == MemoryKind::kHost) {
      SLUICE_RETURN_IF_ERROR(stream.Synchronize());
      wait = false;
    }
    batch = run.batch;
    SLUICE_RETURN_IF_ERROR(host ? CopyWithHost(stream, run, &wait) : CopyOnDevice(stream, run));
  }
  return wait ? stream.Synchronize() : OkStatus();
}

}  // namespace sluice::xpu
