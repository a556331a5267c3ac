// x as codes in F8_E4M3: code = x / scale, to the nearest even, at most +-448. A row's codes and
// scales depend on that row alone.
#include <cuda_fp8.h>

#include "backend/cuda/linear/f8_params.h"
#include "backend/cuda/simt/dependence.cuh"
#include "backend/cuda/simt/group.cuh"

namespace sluice::cuda {
namespace {

constexpr float kF8Max = 448.0f;
// Divides by one scale many times. The quotient by the reciprocal is corrected once by its
// remainder, which rounds it as a division does where nothing over- or underflows.
struct Divider {
  float scale, reciprocal;
  bool plain;
  static __device__ __forceinline__ Divider By(float scale) {
    return {scale, __frcp_rn(scale), !(scale > 0x1p-60f && scale < 0x1p60f)};
  }
  __device__ __forceinline__ float operator()(float x) const {
    if (plain) return __fdiv_rn(x, scale);
    const float q = __fmul_rn(x, reciprocal);
    // What is too large for a code anyway, or no number.
    if (!(fabsf(q) < 1024.0f)) return q;
    return __fmaf_rn(__fmaf_rn(-q, scale, x), reciprocal, q);
  }
};

__device__ __forceinline__ float MaxOf(const float (&x)[kGroup]) {
  float most = 0.0f;
#pragma unroll
  for (int i = 0; i < kGroup; ++i) most = fmaxf(most, fabsf(x[i]));
  return most;
}
__device__ __forceinline__ float ScaleFor(float most) {
  return most == 0.0f ? 1.0f : __fdiv_rn(most, kF8Max);
}

__device__ __forceinline__ void StoreCodes(uint8_t* to, const Divider& divide,
                                           const float (&x)[kGroup]) {
  uint32_t words[2] = {};
#pragma unroll
  for (int i = 0; i < kGroup; i += 2) {
    const __nv_fp8x2_storage_t two = __nv_cvt_float2_to_fp8x2(
        make_float2(divide(x[i]), divide(x[i + 1])), __NV_SATFINITE, __NV_E4M3);
    words[i / 4] |= static_cast<uint32_t>(two) << i % 4 * 8;
  }
  *reinterpret_cast<uint2*>(to) = make_uint2(words[0], words[1]);
}

// Calls `visit(first element, its eight)` for a thread's parts of a row.
template <class T, class Visit>
__device__ __forceinline__ void ForGroups(const F8QuantizeParams& p, const Visit& visit) {
  const int64_t of_x = p.tokens == nullptr ? int64_t{blockIdx.x} : p.tokens[blockIdx.x];
  const T* row = static_cast<const T*>(p.x) + of_x * p.x_stride;
  // Whole warps go round together, since some exchange what they find.
  const int width = static_cast<int>(blockDim.x) * kGroup;
#pragma unroll 2
  for (int base = static_cast<int>(blockIdx.y) * width; base < p.k;
       base += static_cast<int>(gridDim.y) * width) {
    const int first = base + static_cast<int>(threadIdx.x) * kGroup;
    float x[kGroup];
    LoadGroup(row, first, p.k, p.wide, x);
    visit(first, x);
  }
}

template <class T>
__device__ __forceinline__ void QuantizeBlocks(const F8QuantizeParams& p, uint8_t* codes) {
  constexpr int kLanes = kF8Unit / kGroup;
  ForGroups<T>(p, [&](int first, const float(&x)[kGroup]) {
    float most = MaxOf(x);
#pragma unroll
    for (int lanes = kLanes / 2; lanes > 0; lanes /= 2)
      most = fmaxf(most, __shfl_xor_sync(~0u, most, lanes));
    if (first >= p.k) return;
    const float scale = ScaleFor(most);
    StoreCodes(codes + first, Divider::By(scale), x);
    if (first % kF8Unit == 0)
      p.scales[int64_t{first / kF8Unit} * p.scale_stride + blockIdx.x] = scale;
  });
}

template <class T>
__device__ __forceinline__ float RowScale(const F8QuantizeParams& p) {
  __shared__ float found[kF8QuantizeThreadsMax / 32];
  float most = 0.0f;
  ForGroups<T>(p, [&](int, const float(&x)[kGroup]) { most = fmaxf(most, MaxOf(x)); });
  most = WarpMax(most);
  if (threadIdx.x % 32 == 0) found[threadIdx.x / 32] = most;
  __syncthreads();
  for (int i = 0; i < static_cast<int>(blockDim.x) / 32; ++i) most = fmaxf(most, found[i]);
  return ScaleFor(most);
}

enum class Covers { kTensor, kRow, kBlock };

template <Covers kCovers, class T>
__device__ __forceinline__ void Quantize(const F8QuantizeParams& p) {
  uint8_t* codes = p.codes + int64_t{blockIdx.x} * p.k;
  if constexpr (kCovers == Covers::kBlock) return QuantizeBlocks<T>(p, codes);
  const float scale = kCovers == Covers::kRow ? RowScale<T>(p) : *p.scale;
  if (kCovers == Covers::kRow && threadIdx.x == 0) p.scales[blockIdx.x] = scale;
  const Divider divide = Divider::By(scale);
  ForGroups<T>(p, [&](int first, const float(&x)[kGroup]) {
    if (first < p.k) StoreCodes(codes + first, divide, x);
  });
}

template <Covers kCovers>
__device__ __forceinline__ void QuantizeAny(const F8QuantizeParams& p) {
  WaitForInputs();
  if (p.tokens != nullptr && static_cast<int>(blockIdx.x) >= *p.places) return;
  if (p.from == DType::kF32) return Quantize<kCovers, float>(p);
  if (p.from == DType::kF16) return Quantize<kCovers, __half>(p);
  Quantize<kCovers, __nv_bfloat16>(p);
}

}  // namespace
}  // namespace sluice::cuda

#define SLUICE_F8_QUANTIZE(name, covers)                                            \
  extern "C" __global__ void __launch_bounds__(sluice::cuda::kF8QuantizeThreadsMax) \
      name(const __grid_constant__ sluice::cuda::F8QuantizeParams params) {         \
    sluice::cuda::QuantizeAny<sluice::cuda::Covers::covers>(params);                \
  }
SLUICE_F8_QUANTIZE(f8_quantize_tensor, kTensor)
SLUICE_F8_QUANTIZE(f8_quantize_rows, kRow)
SLUICE_F8_QUANTIZE(f8_quantize_blocks, kBlock)
