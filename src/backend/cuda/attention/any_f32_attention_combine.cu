// Combines the partial results of splits in ascending order, as the kernels that walk all of a
// row's splits do. A thread block takes one row (query token and head) after another: its threads
// first make the factors of many splits, which need the largest score up to each, then every thread
// sums one column.
#include "backend/cuda/attention/walk.cuh"
#include "backend/cuda/simt/dependence.cuh"
#include "backend/cuda/simt/element.cuh"
#include "backend/cuda/simt/mma.cuh"
#include "base/dtype.h"

namespace sluice::cuda {
namespace {

// Partial results are on their way, in stages of so many splits, while others are summed.
constexpr int kStages = 4, kStageRows = 8;

struct Shared {
  float parts[kStages][kStageRows * kCombineThreadsMax];
  float2 join[kCombineThreadsMax];  // of what was there, of what comes
  float sum[kCombineThreadsMax];
  float largest[kCombineThreadsMax / 32];  // of each warp's splits
  NearPlan near;
};

// The largest score up to this thread's split, and up to the one before it. `before`: of all
// earlier splits.
__device__ float2 LargestSoFar(float largest, float before, float* of_warps) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const float below = __shfl_up_sync(0xffffffffu, largest, step);
    if (lane >= step) largest = fmaxf(below, largest);
  }
  if (lane == 31) of_warps[warp] = largest;
  __syncthreads();
  for (int w = 0; w < warp; ++w) before = fmaxf(before, of_warps[w]);
  float previous = __shfl_up_sync(0xffffffffu, largest, 1);
  previous = lane == 0 ? before : fmaxf(before, previous);
  return {fmaxf(before, largest), previous};
}

// Column `column` of a row, as the activation type has it.
__device__ void Store(const AttentionParams& p, int token, int head, int column, float value) {
  const int64_t at = token * p.out_stride + int64_t{head} * p.head_dim + column;
  switch (static_cast<DType>(p.activation)) {
    case DType::kF32:
      static_cast<float*>(p.out)[at] = value;
      break;
    case DType::kF16:
      static_cast<__half*>(p.out)[at] = FromFloat<__half>(value);
      break;
    default:
      static_cast<__nv_bfloat16*>(p.out)[at] = FromFloat<__nv_bfloat16>(value);
  }
}

// Combines partial results `first`, `first` + q_heads, ... of `splits` splits. A thread has one
// column, and copies it by itself.
__device__ void Combine(const AttentionParams& p, int token, int head, int64_t first, int splits,
                        Shared& shared) {
  const float2* const states = reinterpret_cast<const float2*>(p.partial_state) + first;
  const int threads = static_cast<int>(blockDim.x), column = static_cast<int>(threadIdx.x);
  const bool has_column = column < p.head_dim;
  const float* const parts = p.partial + first * p.head_dim + column;
  const int64_t stride = int64_t{p.q_heads} * p.head_dim;
  const auto fetch = [&](int stage) {
    float* const to = shared.parts[stage % kStages] + column;
    const float* from = parts + stage * kStageRows * stride;
    const int rows = min(kStageRows, splits - stage * kStageRows);
#pragma unroll 4
    for (int i = 0; i < rows; ++i, from += stride)
      CopyAsync<4>(SharedAddress(to + i * kCombineThreadsMax), from, has_column);
    CommitCopies();
  };
  for (int stage = 0; stage < kStages - 1; ++stage) fetch(stage);
  float before = -INFINITY, sum = -0.0f, value = -0.0f;  // to which 0 adds its own sign
  for (int base = 0; base < splits; base += threads) {
    const int mine = base + column;
    const float2 state =
        mine < splits ? states[int64_t{mine} * p.q_heads] : float2{-INFINITY, 0.0f};
    const float2 largest = LargestSoFar(state.x, before, shared.largest);
    const float2 join = {exp2f(largest.y - largest.x), exp2f(state.x - largest.x)};
    shared.join[column] = mine == 0 ? float2{1.0f, 1.0f} : join;
    shared.sum[column] = state.y;
    __syncthreads();
    for (int w = 0; w < threads / 32; ++w) before = fmaxf(before, shared.largest[w]);
    const int end = min(threads, splits - base);
    for (int begin = 0; begin < end; begin += kStageRows) {
      const int stage = (base + begin) / kStageRows;
      fetch(stage + kStages - 1);
      WaitCopies<kStages - 1>();
      const float* const from = shared.parts[stage % kStages] + column;
      const int rows = min(kStageRows, end - begin);
#pragma unroll 8
      for (int i = 0; i < rows; ++i) {
        const float2 factor = shared.join[begin + i];
        sum = __fmaf_rn(sum, factor.x, shared.sum[begin + i] * factor.y);
        value = Joined(value, from[i * kCombineThreadsMax], factor);
      }
    }
    __syncthreads();
  }
  if (has_column) Store(p, token, head, column, value * OverWeights(p, head, {before, sum}));
}

}  // namespace
}  // namespace sluice::cuda

extern "C" __global__ void __launch_bounds__(256)
    any_f32_attention_combine(const __grid_constant__ sluice::cuda::AttentionParams params) {
  using namespace sluice::cuda;
  __shared__ Shared shared;
  WaitForInputs();
  shared.near.Read(params);
  const int64_t rows = int64_t{shared.near.head[kSplitRows]} * params.q_heads;
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const int split_token = static_cast<int>(row / params.q_heads);
    const int head = static_cast<int>(row % params.q_heads);
    const auto begin = [](const PlanEntry& entry) { return entry.row; };
    const PlanEntry entry = shared.near.Find(params, split_token, begin);
    const SequenceWork work = WorkOf(params, entry);
    const int token = split_token - entry.row;
    const Visible visible = VisibleAt(params, work.at, work.at.Position(token));
    const int from = visible.first_split(params), to = visible.last_split(params);
    if (from == to) continue;  // already written
    const int64_t first =
        PartialRow(params, entry.slot, token, work.splits, from - work.first_split, head);
    Combine(params, work.at.first_token + token, head, first, to - from + 1, shared);
  }
}
