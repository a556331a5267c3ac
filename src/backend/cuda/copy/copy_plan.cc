#include "backend/cuda/copy/copy_plan.h"

#include <algorithm>

namespace sluice::cuda {
namespace {

using device::CopyRun;
using device::MemoryKind;

// Up to here a run over the bus goes with the others in a kernel; the copy engines move more.
constexpr size_t kBusKernelBytes = size_t{256} << 10;
// A run's share of the grid: more blocks don't copy faster.
constexpr uint64_t kBlocksPerRun = 1024;

bool OnHost(MemoryKind memory) {
  return memory == MemoryKind::kHost || memory == MemoryKind::kPinned;
}

}  // namespace

CopyMethod MethodFor(const CopyRun& run, bool alone) {
  const bool plain =
      run.destination_memory == MemoryKind::kHost || run.source_memory == MemoryKind::kHost;
  const bool to_host = OnHost(run.destination_memory), from_host = OnHost(run.source_memory);
  if (plain) return to_host && from_host ? CopyMethod::kHost : CopyMethod::kBlocking;
  if (alone && run.rows == 1) return CopyMethod::kDriver;
  const bool bus = to_host || from_host;
  return bus && run.rows * run.row_bytes > kBusKernelBytes ? CopyMethod::kDriver
                                                           : CopyMethod::kKernel;
}

CopyRunParams ParamsOf(const CopyRun& run) {
  uint64_t bits = reinterpret_cast<uint64_t>(run.destination) |
                  reinterpret_cast<uint64_t>(run.source) | run.row_bytes;
  if (run.rows > 1) bits |= run.destination_stride | run.source_stride;
  const uint32_t unit = bits % 16 == 0 ? 16 : bits % 4 == 0 ? 4 : 1;
  return {reinterpret_cast<uint64_t>(run.destination),
          reinterpret_cast<uint64_t>(run.source),
          run.row_bytes / unit,
          run.rows,
          run.destination_stride,
          run.source_stride,
          unit,
          0};
}

LaunchShape ShapeOf(const CopyRunList& list, int count) {
  uint64_t units = 1;
  for (int i = 0; i < count; ++i)
    units = std::max(units, list.runs[i].rows * list.runs[i].row_units);
  const uint64_t per_block = uint64_t{kCopyThreads} * kCopyUnits;
  const uint64_t blocks = std::min((units + per_block - 1) / per_block, kBlocksPerRun);
  LaunchShape shape;
  shape.grid[0] = static_cast<unsigned>(blocks);
  shape.grid[1] = static_cast<unsigned>(count);
  shape.block[0] = kCopyThreads;
  return shape;
}

}  // namespace sluice::cuda
