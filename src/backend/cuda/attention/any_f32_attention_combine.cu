// Combines the partial results of splits in ascending order, as the kernels that walk all of a
// row's splits do. A thread block takes one row (query token and head) after another: its threads
// first make the factors of many splits, which need the largest score up to each, then every thread
// sums one or two columns.
#include "backend/cuda/attention/walk.cuh"
#include "backend/cuda/simt/dependence.cuh"
#include "backend/cuda/simt/element.cuh"
#include "base/dtype.h"

namespace sluice::cuda {
namespace {

constexpr int kColumns = 256 / kCombineThreads;  // a thread's, of a head of up to 256
constexpr int kAhead = 16;                       // splits that are read before they are used

struct Factors {
  float2 join[kCombineThreads];  // of what was there, of what comes
  float sum[kCombineThreads];
  float largest[kCombineThreads / 32];  // of each warp's splits
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

template <class Activation>
__device__ void StoreRow(const AttentionParams& p, int token, int head,
                         const float (&values)[kColumns], float sum) {
  const float factor = 1.0f / sum;
  Activation* to =
      static_cast<Activation*>(p.out) + token * p.out_stride + int64_t{head} * p.head_dim;
#pragma unroll
  for (int j = 0; j < kColumns; ++j) {
    const int d = threadIdx.x + kCombineThreads * j;
    if (d < p.head_dim) to[d] = FromFloat<Activation>(values[j] * factor);
  }
}

// Partial results `first`, `first` + q_heads, ... of `splits` splits.
__device__ void Combine(const AttentionParams& p, int token, int head, int64_t first, int splits,
                        Factors& shared) {
  const float2* states = reinterpret_cast<const float2*>(p.partial_state);
  float before = -INFINITY, sum = 0.0f;
  float values[kColumns] = {};
  for (int base = 0; base < splits; base += kCombineThreads) {
    const int mine = base + threadIdx.x;
    const float2 state =
        mine < splits ? states[first + int64_t{mine} * p.q_heads] : float2{-INFINITY, 0.0f};
    const float2 largest = LargestSoFar(state.x, before, shared.largest);
    shared.join[threadIdx.x] = {exp2f(largest.y - largest.x), exp2f(state.x - largest.x)};
    shared.sum[threadIdx.x] = state.y;
    __syncthreads();
    for (const float w : shared.largest) before = fmaxf(before, w);
    const int end = min(kCombineThreads, splits - base);
    for (int begin = 0; begin < end; begin += kAhead) {
      float parts[kAhead][kColumns];
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        const int64_t at = first + int64_t{base + begin + i} * p.q_heads;
#pragma unroll
        for (int j = 0; j < kColumns; ++j) {
          const int d = threadIdx.x + kCombineThreads * j;
          const bool there = begin + i < end && d < p.head_dim;
          parts[i][j] = there ? p.partial[at * p.head_dim + d] : 0.0f;
        }
      }
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        if (begin + i >= end) break;
        const bool is_first = base + begin + i == 0;
        const float2 join = shared.join[begin + i];
        const float next = shared.sum[begin + i];
        sum = is_first ? next : __fmaf_rn(sum, join.x, next * join.y);
#pragma unroll
        for (int j = 0; j < kColumns; ++j)
          values[j] = is_first ? parts[i][j] : Joined(values[j], parts[i][j], join);
      }
    }
    __syncthreads();
  }
  switch (static_cast<DType>(p.activation)) {
    case DType::kF32:
      return StoreRow<float>(p, token, head, values, sum);
    case DType::kF16:
      return StoreRow<__half>(p, token, head, values, sum);
    default:
      return StoreRow<__nv_bfloat16>(p, token, head, values, sum);
  }
}

}  // namespace
}  // namespace sluice::cuda

extern "C" __global__ void __launch_bounds__(128)
    any_f32_attention_combine(const __grid_constant__ sluice::cuda::AttentionParams params) {
  using namespace sluice::cuda;
  __shared__ Factors shared;
  WaitForInputs();
  const StepPlan plan = PlanOf(params.plan);
  const int64_t rows = int64_t{plan.head[kSplitRows]} * params.q_heads;
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const int split_token = static_cast<int>(row / params.q_heads);
    const int head = static_cast<int>(row % params.q_heads);
    const auto begin = [&](int i) { return int64_t{plan.entries[i].row}; };
    const PlanEntry entry = plan.entries[LastAtMost(plan.head[kEntries], split_token, begin)];
    const SequenceWork work = WorkOf(params, entry);
    const int token = split_token - entry.row;
    const Visible visible = VisibleAt(params, work.at, work.at.Position(token));
    const int from = visible.first_split(), to = visible.last_split();
    if (from == to) continue;  // already written
    const int64_t first =
        PartialRow(params, entry.slot, token, work.splits, from - work.first_split, head);
    Combine(params, work.at.first_token + token, head, first, to - from + 1, shared);
  }
}
