// RMSNorm and LayerNorm, with the addition to the residual before: a thread block has one row. T is
// the activation type, Sum that of the residual. With kCodes the row becomes codes, too.
#include "backend/cuda/norm/params.h"
#include "backend/cuda/simt/codes.cuh"
#include "backend/cuda/simt/rehearsal.cuh"

namespace sluice::cuda {
namespace {

// What a thread block works on.
template <class T, class Sum>
struct Row {
  const T* added;  // null: nothing
  Sum* sums;
  T* out;  // null: codes alone are wanted
  uint8_t* codes;
  float* code_scales;
};

// The group from `first` on as the norm sees it, the residual updated.
template <class T, class Sum>
__device__ __forceinline__ void TakeGroup(const NormParams& p, const Row<T, Sum>& row,
                                          int64_t first, float (&values)[kGroup]) {
  const bool wide = p.wide != 0;
  LoadGroup<Sum>(row.sums, first, p.hidden, wide, values);
  if (row.added == nullptr) return;
  const float scale = p.scale == nullptr ? 1.0f : *p.scale;
  float added[kGroup];
  LoadGroup(row.added, first, p.hidden, wide, added);
#pragma unroll
  for (int i = 0; i < kGroup; ++i)
    values[i] = ToFloat(FromFloat<Sum>((added[i] + values[i]) * scale));
  StoreGroup(row.sums, first, p.hidden, wide, values);
}

__device__ __forceinline__ float SumOf(const float (&values)[kGroup]) {
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < kGroup; ++i) sum += values[i];
  return sum;
}

// Of (value - mean); what lies behind the row counts as nothing.
__device__ __forceinline__ float SumOfSquares(const float (&values)[kGroup], float mean,
                                              int64_t left) {
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < kGroup; ++i) {
    const float centered = i < left ? values[i] - mean : 0.0f;
    sum += centered * centered;
  }
  return sum;
}

__device__ __forceinline__ void LoadWeights(const NormParams& p, int64_t first,
                                            float (&weight)[kGroup], float (&bias)[kGroup]) {
  if (p.weight != nullptr) {
    LoadGroup(p.weight, first, p.hidden, p.wide_weights != 0, weight);
  } else {
#pragma unroll
    for (int i = 0; i < kGroup; ++i) weight[i] = 1.0f;
  }
  if (p.bias != nullptr) {
    LoadGroup(p.bias, first, p.hidden, p.wide_weights != 0, bias);
  } else {
#pragma unroll
    for (int i = 0; i < kGroup; ++i) bias[i] = 0.0f;
  }
}

// With kCodes whole warps call it.
template <bool kCodes, class T, class Sum>
__device__ __forceinline__ void Finish(const NormParams& p, const Row<T, Sum>& row, int64_t first,
                                       float mean, float inverse, const float (&weight)[kGroup],
                                       const float (&bias)[kGroup], float (&values)[kGroup]) {
#pragma unroll
  for (int i = 0; i < kGroup; ++i) values[i] = (values[i] - mean) * inverse * weight[i] + bias[i];
  if (!kCodes || row.out != nullptr) StoreGroup(row.out, first, p.hidden, p.wide != 0, values);
  if constexpr (kCodes) {
#pragma unroll
    for (int i = 0; i < kGroup; ++i)
      values[i] = first + i < p.hidden ? ToFloat(FromFloat<T>(values[i])) : 0.0f;
    CodeGroup(row.codes, row.code_scales, p.code_scales_stride, first, p.hidden, p.wide_codes != 0,
              values);
  }
}

__device__ __forceinline__ float Inverse(const NormParams& p, float squares) {
  if (p.weight == nullptr) return 1.0f;
  return InverseRms(squares, p.hidden, p.eps);
}

// A group for each thread: the row stays in registers. Weights, which no kernel writes, come while
// the kernel in front of it still runs, and so does the code (rehearsal.cuh).
template <bool kCodes, class T, class Sum>
__device__ void ShortRow(const NormParams& p, Row<T, Sum> row, float* shared) {
  const int64_t mine = int64_t{threadIdx.x} * kGroup;
  float weight[kGroup], bias[kGroup];
  LoadWeights(p, mine, weight, bias);
  bool rehearses = FewBlocks() && p.wide != 0;
  LetNextBegin();
#pragma unroll 1
  for (;; rehearses = false) {
    if (!rehearses) WaitForInputs();
    Row<T, Sum> now = row;
    if (rehearses) {
      now = {row.added == nullptr ? nullptr : OnStage<T>(), OnStage<Sum>(),
             row.out == nullptr ? nullptr : OnStage<T>(), OnStage<uint8_t>(), OnStage<float>()};
    }
    const int64_t first = rehearses ? 0 : mine, left = p.hidden - mine;
    float values[kGroup];
    TakeGroup(p, now, first, values);
    const float mean =
        p.center != 0 ? BlockSum(SumOf(values), shared) / static_cast<float>(p.hidden) : 0.0f;
    const float squares = BlockSum(SumOfSquares(values, mean, left), shared);
    Finish<kCodes>(p, now, first, mean, Inverse(p, squares), weight, bias, values);
    if (!rehearses) return;
  }
}

// A thread reads again only what it wrote itself.
template <bool kCodes, class T, class Sum>
__device__ void LongRow(const NormParams& p, const Row<T, Sum>& row, float* shared) {
  const int64_t begin = int64_t{threadIdx.x} * kGroup, step = int64_t{blockDim.x} * kGroup;
  float values[kGroup], weight[kGroup], bias[kGroup];
  float sum = 0.0f, squares = 0.0f, mean = 0.0f;
  WaitForInputs();
  for (int64_t first = begin; first < p.hidden; first += step) {
    TakeGroup(p, row, first, values);
    sum += SumOf(values);
  }
  if (p.center != 0) mean = BlockSum(sum, shared) / static_cast<float>(p.hidden);
  for (int64_t first = begin; first < p.hidden; first += step) {
    LoadGroup<Sum>(row.sums, first, p.hidden, p.wide != 0, values);
    squares += SumOfSquares(values, mean, p.hidden - first);
  }
  const float inverse = Inverse(p, BlockSum(squares, shared));
  // Lanes that make codes go round with their warp.
  const int64_t ahead = kCodes ? int64_t{threadIdx.x} % 32 * kGroup : 0;
  for (int64_t first = begin; first - ahead < p.hidden; first += step) {
    LoadGroup<Sum>(row.sums, first, p.hidden, p.wide != 0, values);
    LoadWeights(p, first, weight, bias);
    Finish<kCodes>(p, row, first, mean, inverse, weight, bias, values);
  }
}

template <bool kCodes, class T, class Sum>
__device__ void NormRow(const NormParams& p) {
  __shared__ float shared[32];
  const int64_t token = blockIdx.x;
  Row<T, Sum> row;
  row.added =
      p.added == nullptr ? nullptr : static_cast<const T*>(p.added) + token * p.added_stride;
  row.sums = static_cast<Sum*>(p.sums) + token * p.sums_stride;
  row.out = p.out == nullptr ? nullptr : static_cast<T*>(p.out) + token * p.out_stride;
  row.codes = p.codes + token * p.codes_stride;
  row.code_scales = p.code_scales + token;
  if (p.hidden <= int64_t{blockDim.x} * kGroup) {
    ShortRow<kCodes>(p, row, shared);
  } else {
    LongRow<kCodes>(p, row, shared);
  }
}

}  // namespace

#define SLUICE_NORM(name, type, sum)                                         \
  extern "C" __global__ void any_f32_norm_##name(const NormParams p) {       \
    NormRow<false, type, sum>(p);                                            \
  }                                                                          \
  extern "C" __global__ void any_f32_norm_codes_##name(const NormParams p) { \
    NormRow<true, type, sum>(p);                                             \
  }
SLUICE_NORM(f32, float, float)
SLUICE_NORM(f16, __half, __half)
SLUICE_NORM(bf16, __nv_bfloat16, __nv_bfloat16)
SLUICE_NORM(f16_of_f32, __half, float)

}  // namespace sluice::cuda
