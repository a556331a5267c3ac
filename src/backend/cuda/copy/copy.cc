#include "backend/cuda/copy/copy.h"

#include <cstring>

#include "backend/cuda/copy/copy_plan.h"
#include "base/str_cat.h"

namespace sluice::cuda {
namespace {

using device::CopyRun;
using device::MemoryKind;

constexpr KernelId kCopyRuns = {"copy_runs", "copy_runs"};

CUdeviceptr Address(const std::byte* data) { return reinterpret_cast<CUdeviceptr>(data); }

Status CheckRuns(const CudaStream& stream, std::span<const CopyRun> runs) {
  for (const CopyRun& run : runs) {
    const CopyMethod method = MethodFor(run, false);
    const bool waits = method == CopyMethod::kBlocking || method == CopyMethod::kHost;
    if (waits && stream.capturing()) {
      return Status(StatusCode::kFailedPrecondition,
                    StrCat("a copy of ", run.rows * run.row_bytes,
                           " bytes of plain host memory while a graph is captured; a graph can't "
                           "wait for the host, use pinned memory"));
    }
  }
  return OkStatus();
}

Status CopyByDriver(CudaStream& stream, const CopyRun& run) {
  const Driver& driver = TheDriver();
  if (run.rows == 1) {
    return stream.Call(driver.cuMemcpyAsync(Address(run.destination), Address(run.source),
                                            run.row_bytes, stream.handle()),
                       StrCat("copying ", run.row_bytes, " bytes"));
  }
  CUDA_MEMCPY2D rows = {};
  // The driver finds out what each address is.
  rows.srcMemoryType = rows.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
  rows.srcDevice = Address(run.source);
  rows.dstDevice = Address(run.destination);
  rows.srcPitch = run.source_stride;
  rows.dstPitch = run.destination_stride;
  if (run.source_memory == MemoryKind::kHost) {
    rows.srcMemoryType = CU_MEMORYTYPE_HOST;
    rows.srcHost = run.source;
  }
  if (run.destination_memory == MemoryKind::kHost) {
    rows.dstMemoryType = CU_MEMORYTYPE_HOST;
    rows.dstHost = run.destination;
  }
  rows.WidthInBytes = run.row_bytes;
  rows.Height = run.rows;
  return stream.Call(driver.cuMemcpy2DAsync(&rows, stream.handle()),
                     StrCat("copying ", run.rows, " rows of ", run.row_bytes, " bytes"));
}

Status CopyOnHost(CudaStream& stream, const CopyRun& run) {
  SLUICE_RETURN_IF_ERROR(stream.Synchronize());
  for (size_t row = 0; row < run.rows; ++row) {
    std::memcpy(run.destination + row * run.destination_stride,
                run.source + row * run.source_stride, run.row_bytes);
  }
  return OkStatus();
}

// Runs that may be done in any order.
Status CopyBatch(CudaStream& stream, std::span<const CopyRun> batch, bool* must_wait) {
  CopyRunList list = {};
  int listed = 0;
  const auto launch = [&]() -> Status {
    if (listed == 0) return OkStatus();
    const LaunchShape shape = ShapeOf(list, listed);
    listed = 0;
    return Launch(stream, kCopyRuns, shape, list);
  };
  for (const CopyRun& run : batch) {
    switch (MethodFor(run, batch.size() == 1)) {
      case CopyMethod::kKernel:
        list.runs[listed++] = ParamsOf(run);
        if (listed == kRunsPerLaunch) SLUICE_RETURN_IF_ERROR(launch());
        break;
      case CopyMethod::kBlocking:
        *must_wait = true;
        SLUICE_RETURN_IF_ERROR(CopyByDriver(stream, run));
        break;
      case CopyMethod::kDriver:
        SLUICE_RETURN_IF_ERROR(CopyByDriver(stream, run));
        break;
      case CopyMethod::kHost:
        SLUICE_RETURN_IF_ERROR(CopyOnHost(stream, run));
        break;
    }
  }
  return launch();
}

}  // namespace

Status CopyRuns(CudaStream& stream, std::span<const CopyRun> runs) {
  SLUICE_RETURN_IF_ERROR(CheckRuns(stream, runs));
  SLUICE_RETURN_IF_ERROR(stream.Enter());
  bool must_wait = false;
  for (size_t begin = 0, end = 0; begin < runs.size(); begin = end) {
    while (end < runs.size() && runs[end].batch == runs[begin].batch) ++end;
    SLUICE_RETURN_IF_ERROR(CopyBatch(stream, runs.subspan(begin, end - begin), &must_wait));
  }
  return must_wait ? stream.Synchronize() : OkStatus();
}

}  // namespace sluice::cuda
