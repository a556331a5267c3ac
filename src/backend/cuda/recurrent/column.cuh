// A column of a state in registers: four lanes of a warp have it, each every fourth four of its
// rows. Device code only.
#pragma once

#include "backend/cuda/recurrent/params.h"

namespace sluice::cuda {

inline constexpr int kQuad = 4;  // rows that lie side by side in a lane

// The row of a lane's number `r`.
__device__ __forceinline__ int RowOf(int part, int r) {
  return r / kQuad * kQuad * static_cast<int>(kDeltaParts) + part * kQuad + r % kQuad;
}

// `stride`: from row to row. Where `there` is false nothing is read and the numbers are zeros.
template <int kRows>
__device__ __forceinline__ void LoadColumn(const float* from, int rows, int64_t stride, int part,
                                           bool there, float (&s)[kRows]) {
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const int row = RowOf(part, r);
    s[r] = there && row < rows ? from[row * stride] : 0.0f;
  }
}

template <int kRows>
__device__ __forceinline__ void StoreColumn(const float (&s)[kRows], int rows, int64_t stride,
                                            int part, bool mine, float* to) {
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const int row = RowOf(part, r);
    if (mine && row < rows) to[row * stride] = s[r];
  }
}

// The sum over the lanes that share a column; each gets it.
__device__ __forceinline__ float ColumnSum(const float (&sums)[kQuad]) {
  float sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  sum += __shfl_xor_sync(~0u, sum, 8);
  return sum + __shfl_xor_sync(~0u, sum, 16);
}

}  // namespace sluice::cuda
