// Eight consecutive numbers of a row at a time, and sums over a warp and a thread block. The order
// of every sum is fixed by the number of threads; how numbers are loaded does not change it.
#pragma once

#include "backend/cuda/simt/element.cuh"

namespace sluice::cuda {

// What a thread takes of a row at once.
constexpr int kGroup = 8;

// Numbers [first, first + 8) of `row`, zeros from `count` on. `wide`: the row begins at a multiple
// of 16 bytes.
template <class T>
__device__ __forceinline__ void LoadGroup(const T* row, int64_t first, int64_t count, bool wide,
                                          float (&out)[kGroup]) {
  if (wide && first + kGroup <= count) {
    struct alignas(16) Packed {
      T values[kGroup];
    };
    const Packed packed = *reinterpret_cast<const Packed*>(row + first);
#pragma unroll
    for (int i = 0; i < kGroup; ++i) out[i] = ToFloat(packed.values[i]);
    return;
  }
#pragma unroll
  for (int i = 0; i < kGroup; ++i) out[i] = first + i < count ? ToFloat(row[first + i]) : 0.0f;
}

// The inverse; what lies from `count` on is not written.
template <class T>
__device__ __forceinline__ void StoreGroup(T* row, int64_t first, int64_t count, bool wide,
                                           const float (&values)[kGroup]) {
  if (wide && first + kGroup <= count) {
    struct alignas(16) Packed {
      T values[kGroup];
    };
    Packed packed;
#pragma unroll
    for (int i = 0; i < kGroup; ++i) packed.values[i] = FromFloat<T>(values[i]);
    *reinterpret_cast<Packed*>(row + first) = packed;
    return;
  }
#pragma unroll
  for (int i = 0; i < kGroup; ++i) {
    if (first + i < count) row[first + i] = FromFloat<T>(values[i]);
  }
}

// Every lane gets the sum of all lanes.
__device__ __forceinline__ float WarpSum(float value) {
#pragma unroll
  for (int lanes = 16; lanes > 0; lanes /= 2) value += __shfl_xor_sync(~0u, value, lanes);
  return value;
}

__device__ __forceinline__ float WarpMax(float value) {
#pragma unroll
  for (int lanes = 16; lanes > 0; lanes /= 2)
    value = fmaxf(value, __shfl_xor_sync(~0u, value, lanes));
  return value;
}

// Every thread gets the sum of the whole block, warp after warp. `shared` holds 32 numbers; blocks
// are whole warps. Ends with shared memory free for another call.
__device__ __forceinline__ float BlockSum(float value, float* shared) {
  const int warp = threadIdx.x / 32, warps = blockDim.x / 32;
  value = WarpSum(value);
  if (threadIdx.x % 32 == 0) shared[warp] = value;
  __syncthreads();
  float sum = 0.0f;
  for (int i = 0; i < warps; ++i) sum += shared[i];
  __syncthreads();
  return sum;
}

// Of n numbers whose squares sum to this, as the RMSNorm has it.
__device__ __forceinline__ float InverseRms(float squares, int64_t n, float eps) {
  return 1.0f / sqrtf(squares / static_cast<float>(n) + eps);
}

}  // namespace sluice::cuda
