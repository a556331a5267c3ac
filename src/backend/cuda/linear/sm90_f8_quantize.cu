// x as codes in F8_E4M3: code = x / scale, to the nearest even, at most +-448. A row's codes and
// scales depend on that row alone.
#include "backend/cuda/linear/f8_params.h"
#include "backend/cuda/simt/codes.cuh"
#include "backend/cuda/simt/dependence.cuh"

namespace sluice::cuda {
namespace {

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
  static_assert(kCodeGroup == kF8Unit);
  ForGroups<T>(p, [&](int first, const float(&x)[kGroup]) {
    CodeGroup(codes, p.scales + blockIdx.x, p.scale_stride, first, p.k, true, x);
  });
}

template <class T>
__device__ __forceinline__ float RowScale(const F8QuantizeParams& p) {
  __shared__ uint32_t found[kF8QuantizeThreadsMax / 32];
  uint32_t most = 0;
  ForGroups<T>(p, [&](int, const float(&x)[kGroup]) { most = max(most, MostOf(x)); });
  most = MostOfLanes(most, 32);
  if (threadIdx.x % 32 == 0) found[threadIdx.x / 32] = most;
  __syncthreads();
  for (int i = 0; i < static_cast<int>(blockDim.x) / 32; ++i) most = max(most, found[i]);
  return ScaleFor(most, kF8Max);
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
    if (first < p.k) StoreF8Codes(codes, first, p.k, true, divide, x);
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
