// Copies by the copy engine of sm_90 out of shared memory; those into it stand in bulk_copy.cuh.
// What threads wrote there has to be published to the engine first (PublishToMatrices).
#pragma once

#include <cstdint>

namespace sluice::cuda {

// Writes a box of a matrix that `map` (tensor_map.h) describes, from (column, row) on; what lies
// outside the matrix is left out.
__device__ __forceinline__ void WriteBox(const void* map, int column, int row, uint32_t from) {
  asm volatile(
      "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" ::"l"(map),
      "r"(column), "r"(row), "r"(from)
      : "memory");
}
// The boxes that this thread has written since are waited for together.
__device__ __forceinline__ void CommitBoxes() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
// Until the boxes that this thread has committed have left shared memory.
__device__ __forceinline__ void WaitForBoxesToLeave() {
  asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}

}  // namespace sluice::cuda
