// Copies many runs in one launch: blockIdx.y is the run, and its blocks share out its units. Memory
// may be the device's or pinned on the host.
#include "backend/cuda/copy/copy_runs.h"
#include "backend/cuda/simt/dependence.cuh"

namespace sluice::cuda {
namespace {

template <class Unit>
__device__ void Copy(const CopyRunParams& run) {
  const uint64_t units = run.rows * run.row_units;
  const uint64_t stride = static_cast<uint64_t>(gridDim.x) * blockDim.x;
  for (uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < units;
       i += stride) {
    const uint64_t row = run.rows == 1 ? 0 : i / run.row_units;
    const uint64_t at = (i - row * run.row_units) * sizeof(Unit);
    const Unit value = *reinterpret_cast<const Unit*>(run.source + row * run.source_stride + at);
    *reinterpret_cast<Unit*>(run.destination + row * run.destination_stride + at) = value;
  }
}

}  // namespace

extern "C" __global__ void copy_runs(const __grid_constant__ CopyRunList list) {
  WaitForInputs();
  const CopyRunParams& run = list.runs[blockIdx.y];
  if (run.unit == 16) {
    Copy<uint4>(run);
  } else if (run.unit == 4) {
    Copy<uint32_t>(run);
  } else {
    Copy<uint8_t>(run);
  }
}

}  // namespace sluice::cuda
