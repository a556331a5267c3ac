// Combines the partial results of splits in ascending order, as the kernels that walk all of a
// row's splits do. Of a row (query token and head) with few splits a warp takes all, a lane four
// neighbouring columns. Others are a thread block's: its threads first make the factors of many
// splits, which need the largest score up to each, then every thread sums one column.
#include "backend/cuda/attention/walk.cuh"
#include "backend/cuda/simt/dependence.cuh"
#include "backend/cuda/simt/element.cuh"
#include "backend/cuda/simt/mma.cuh"
#include "base/dtype.h"

namespace sluice::cuda {
namespace {

// Partial results are on their way, in stages of so many splits, while others are summed.
constexpr int kStageRows = 16, kStages = kCombineRows / kStageRows;
// A warp's rows have at most so many splits; it has so many of them on their way.
constexpr int kWarpSplits = 32, kWarpAhead = 8;

struct Shared {
  float2 join[kCombineThreadsMax];  // of what was there, of what comes
  float sum[kCombineThreadsMax];
  float largest[kCombineThreadsMax / 32];  // of each warp's splits
  NearEntries<256> near;
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

// Whether four neighbouring columns can be read at once.
__device__ bool ReadsFour(const AttentionParams& p) { return p.head_dim % 4 == 0; }

// A row whose partial results are to be combined.
struct Row {
  int token, head;
  int64_t first;  // of its partial results, which lie q_heads apart
  int splits;     // 1: there is nothing to do
};

// All lanes of a warp call together.
__device__ Row RowAt(const AttentionParams& p, const Shared& shared, int64_t index) {
  const int split_token = static_cast<int>(index / p.q_heads);
  const auto begin = [](const PlanEntry& entry) { return entry.row; };
  const PlanEntry entry = shared.near.Find(p, split_token, begin);
  const SequenceWork work = WorkOf(p, entry);
  const int token = split_token - entry.row;
  const Visible visible = VisibleAt(p, work.at, work.at.Position(token));
  const int from = visible.first_split(p);
  Row row;
  row.token = work.at.first_token + token;
  row.head = static_cast<int>(index % p.q_heads);
  row.first = PartialRow(p, entry.slot, token, work.splits, from - work.first_split, row.head);
  row.splits = visible.last_split(p) - from + 1;
  return row;
}

// A row of at most kWarpSplits splits, by a warp.
__device__ void CombineFew(const AttentionParams& p, const Row& row) {
  const int lane = threadIdx.x % 32;
  const float2* const states = reinterpret_cast<const float2*>(p.partial_state) + row.first;
  const float2 state =
      lane < row.splits ? states[int64_t{lane} * p.q_heads] : float2{-INFINITY, 0.0f};
  float largest = state.x;
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const float below = __shfl_up_sync(0xffffffffu, largest, step);
    if (lane >= step) largest = fmaxf(below, largest);
  }
  const float before = __shfl_up_sync(0xffffffffu, largest, 1);
  const float2 join =
      lane == 0 ? float2{1.0f, 1.0f} : float2{exp2f(before - largest), exp2f(state.x - largest)};
  const float most = __shfl_sync(0xffffffffu, largest, 31);
  const int64_t stride = int64_t{p.q_heads} * p.head_dim;
  for (int first_column = 0; first_column < p.head_dim; first_column += 128) {
    const int column = first_column + lane * 4;
    const bool has_column = column < p.head_dim;
    const float* const from = p.partial + row.first * p.head_dim + column;
    float sum = -0.0f, values[4] = {-0.0f, -0.0f, -0.0f, -0.0f};  // to which 0 adds its own sign
    for (int base = 0; base < row.splits; base += kWarpAhead) {
      float4 parts[kWarpAhead];
#pragma unroll
      for (int i = 0; i < kWarpAhead; ++i) {
        if (base + i < row.splits && has_column)
          parts[i] = *reinterpret_cast<const float4*>(from + (base + i) * stride);
      }
#pragma unroll
      for (int i = 0; i < kWarpAhead; ++i) {
        if (base + i >= row.splits) break;
        const float2 factor = {__shfl_sync(0xffffffffu, join.x, base + i),
                               __shfl_sync(0xffffffffu, join.y, base + i)};
        sum = __fmaf_rn(sum, factor.x, __shfl_sync(0xffffffffu, state.y, base + i) * factor.y);
        values[0] = Joined(values[0], parts[i].x, factor);
        values[1] = Joined(values[1], parts[i].y, factor);
        values[2] = Joined(values[2], parts[i].z, factor);
        values[3] = Joined(values[3], parts[i].w, factor);
      }
    }
    const float over = OverWeights(p, row.head, {most, sum});
    for (int i = 0; i < 4 && has_column; ++i)
      Store(p, row.token, row.head, column + i, values[i] * over);
  }
}

// A row of any number of splits, by a thread block. A thread has one column. A warp copies its
// columns by itself, into `staged` [kCombineRows, threads].
__device__ void CombineMany(const AttentionParams& p, const Row& row, Shared& shared,
                            float* staged) {
  const int splits = row.splits;
  const float2* const states = reinterpret_cast<const float2*>(p.partial_state) + row.first;
  const int threads = static_cast<int>(blockDim.x), column = static_cast<int>(threadIdx.x);
  const bool has_column = column < p.head_dim;
  const float* const parts = p.partial + row.first * p.head_dim;
  const int lane = column % 32, four = column - lane + lane % 8 * 4;
  const int64_t stride = int64_t{p.q_heads} * p.head_dim;
  const auto fetch = [&](int stage) {
    float* const to = staged + stage % kStages * kStageRows * threads;
    const float* const from = parts + stage * kStageRows * stride;
    const int rows = min(kStageRows, splits - stage * kStageRows);
    if (ReadsFour(p)) {
#pragma unroll 4
      for (int i = lane / 8; i < rows; i += 4) {
        if (four < p.head_dim)
          CopyAsync<16>(SharedAddress(to + i * threads + four), from + i * stride + four, true);
      }
    } else {
      for (int i = 0; i < rows; ++i)
        if (has_column)
          CopyAsync<4>(SharedAddress(to + i * threads + column), from + i * stride + column, true);
    }
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
      __syncwarp();
      const float* const from = staged + stage % kStages * kStageRows * threads + column;
      const int rows = min(kStageRows, end - begin);
#pragma unroll 8
      for (int i = 0; i < rows; ++i) {
        const float2 factor = shared.join[begin + i];
        sum = __fmaf_rn(sum, factor.x, shared.sum[begin + i] * factor.y);
        value = Joined(value, from[i * threads], factor);
      }
      __syncwarp();
    }
    __syncthreads();
  }
  if (has_column)
    Store(p, row.token, row.head, column, value * OverWeights(p, row.head, {before, sum}));
}

}  // namespace
}  // namespace sluice::cuda

extern "C" __global__ void __launch_bounds__(256)
    any_f32_attention_combine(const __grid_constant__ sluice::cuda::AttentionParams params) {
  using namespace sluice::cuda;
  __shared__ Shared shared;
  extern __shared__ __align__(16) float staged[];
  WaitForInputs();
  shared.near.Read(params);
  const int64_t rows = int64_t{shared.near.head[kSplitRows]} * params.q_heads;
  const bool reads_four = ReadsFour(params);
  const auto is_few = [&](const Row& row) { return reads_four && row.splits <= kWarpSplits; };
  const int64_t room = int64_t{params.blocks_max} * params.block_tokens;
  if (!reads_four || SplitsOf(room, params.split_shift) > kWarpSplits) {
    for (int64_t i = blockIdx.x; i < rows; i += gridDim.x) {
      const Row row = RowAt(params, shared, i);
      if (row.splits > 1 && !is_few(row)) CombineMany(params, row, shared, staged);
    }
  }
  const int warps = static_cast<int>(blockDim.x) / 32, warp = static_cast<int>(threadIdx.x) / 32;
  for (int64_t i = int64_t{blockIdx.x} * warps + warp; i < rows; i += int64_t{gridDim.x} * warps) {
    const Row row = RowAt(params, shared, i);
    // One split is already written.
    if (row.splits > 1 && is_few(row)) CombineFew(params, row);
  }
}
