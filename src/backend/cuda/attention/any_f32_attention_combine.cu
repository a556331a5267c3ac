// Combines the partial results of splits in ascending order, as the kernels that walk all of a
// row's splits do. A row is a query token and head. Of one with few splits a warp takes all, a lane
// four neighbouring columns. One with many is a thread block's: its threads first make the factors
// of many splits, which need the largest score up to each, then every thread sums one column.
#include "backend/cuda/attention/walk.cuh"
#include "backend/cuda/simt/dependence.cuh"
#include "backend/cuda/simt/element.cuh"
#include "backend/cuda/simt/mma.cuh"
#include "base/dtype.h"

namespace sluice::cuda {
namespace {

// Partial results are on their way, in stages of so many splits, while others are summed.
constexpr int kStageRows = 16, kStages = kCombineRows / kStageRows;
constexpr int kWarpSplits = kCombineWarpSplits, kWarpAhead = 8;  // that it has on their way

using Near = NearEntries<256>;
struct Shared {
  float2 join[kCombineThreadsMax];  // of what was there, of what comes
  float sum[kCombineThreadsMax];
  float largest[kCombineThreadsMax / 32];  // of each warp's splits
  Near near;
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

// Of a query token of an entry's sequence.
__device__ Row RowOf(const AttentionParams& p, const PlanEntry& entry, int token, int head) {
  const SequenceWork work = WorkOf(p, entry);
  const Visible visible = VisibleAt(p, work.at, work.at.Position(token));
  const int from = visible.first_split(p);
  Row row;
  row.token = work.at.first_token + token;
  row.head = head;
  row.first = PartialRow(p, entry.slot, token, work.splits, from - work.first_split, head);
  row.splits = visible.last_split(p) - from + 1;
  return row;
}
// All lanes of a warp call together.
__device__ Row RowAt(const AttentionParams& p, const Near& near, int index) {
  const int split_token = index / p.q_heads;
  const auto begin = [](const PlanEntry& entry) { return entry.row; };
  const PlanEntry entry = near.Find(p, split_token, begin);
  return RowOf(p, entry, split_token - entry.row, index % p.q_heads);
}

// Four neighbouring columns of a row.
__device__ __forceinline__ void StoreFour(const AttentionParams& p, int token, int head, int column,
                                          const float (&values)[4]) {
  const bool words = static_cast<DType>(p.activation) == DType::kF32;
  const int64_t at = token * p.out_stride + int64_t{head} * p.head_dim + column;
  char* const to = static_cast<char*>(p.out) + at * (words ? 4 : 2);
  if (reinterpret_cast<uintptr_t>(to) % (words ? 16 : 8) != 0) {
    for (int i = 0; i < 4; ++i) Store(p, token, head, column + i, values[i]);
  } else if (words) {
    *reinterpret_cast<float4*>(to) = {values[0], values[1], values[2], values[3]};
  } else if (static_cast<DType>(p.activation) == DType::kF16) {
    *reinterpret_cast<uint2*>(to) = {Pack<__half>(values[0], values[1]),
                                     Pack<__half>(values[2], values[3])};
  } else {
    *reinterpret_cast<uint2*>(to) = {Pack<__nv_bfloat16>(values[0], values[1]),
                                     Pack<__nv_bfloat16>(values[2], values[3])};
  }
}

// A row of at most kWarpSplits splits, by a warp. Partial results are asked for before the states
// that say what becomes of them.
__device__ __forceinline__ void CombineFew(const AttentionParams& p, const Row& row) {
  const int lane = threadIdx.x % 32;
  const int stride = p.q_heads * p.head_dim;
  float2 state, join;
  float most = -INFINITY;
  for (int column = lane * 4; column - lane * 4 < p.head_dim; column += 128) {
    const bool has_column = column < p.head_dim;
    const float* const from = p.partial + row.first * p.head_dim + column;
    float4 parts[kWarpAhead];
    const auto load = [&](int base) {
#pragma unroll
      for (int i = 0; i < kWarpAhead; ++i) {
        if (base + i < row.splits && has_column)
          parts[i] = __ldcg(reinterpret_cast<const float4*>(from + (base + i) * stride));
      }
    };
    load(0);
    if (column == lane * 4) {
      const float2* const states = reinterpret_cast<const float2*>(p.partial_state) + row.first;
      state = lane < row.splits ? __ldcg(states + lane * p.q_heads) : float2{-INFINITY, 0.0f};
      float largest = state.x;
#pragma unroll
      for (int step = 1; step < 32; step *= 2) {
        const float below = __shfl_up_sync(0xffffffffu, largest, step);
        if (lane >= step) largest = fmaxf(below, largest);
      }
      const float before = __shfl_up_sync(0xffffffffu, largest, 1);
      join = lane == 0 ? float2{1.0f, 1.0f}
                       : float2{exp2f(before - largest), exp2f(state.x - largest)};
      most = __shfl_sync(0xffffffffu, largest, 31);
    }
    float sum = -0.0f, values[4] = {-0.0f, -0.0f, -0.0f, -0.0f};  // to which 0 adds its own sign
    for (int base = 0; base < row.splits; base += kWarpAhead) {
      if (base > 0) load(base);
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
#pragma unroll
    for (float& value : values) value *= over;
    if (has_column) StoreFour(p, row.token, row.head, column, values);
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
  const auto state_of = [&](int split) {
    return split < splits ? states[int64_t{split} * p.q_heads] : float2{-INFINITY, 0.0f};
  };
  float2 next = state_of(column);
  float before = -INFINITY, sum = -0.0f, value = -0.0f;  // to which 0 adds its own sign
  for (int base = 0; base < splits; base += threads) {
    const int mine = base + column;
    const float2 state = next;
    next = state_of(mine + threads);
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

// Calls visit(row) for this thread block's share of the rows of more than `few` splits, of which it
// looks for the sequences. All threads call together.
template <class Visit>
__device__ __forceinline__ void ForRowsOfMany(const AttentionParams& p, const Near& near, int few,
                                              const Visit& visit) {
  const int lane = threadIdx.x % 32, entries = near.head[kEntries];
  int64_t rows = 0;  // of sequences before
  for (int base = 0; base < entries; base += 32) {
    const PlanEntry mine = near.At(p, min(base + lane, entries - 1));
    bool many = base + lane < entries && mine.slot >= 0;
    if (many) many = WorkOf(p, mine).splits > few;
    for (unsigned left = __ballot_sync(0xffffffffu, many); left != 0; left &= left - 1) {
      const PlanEntry entry = near.At(p, base + __ffs(left) - 1);
      const int64_t grid = gridDim.x, end = rows + int64_t{entry.tokens} * p.q_heads;
      for (int64_t i = blockIdx.x + (rows + grid - 1 - blockIdx.x) / grid * grid; i < end;
           i += grid) {
        const int index = static_cast<int>(i - rows);
        const Row row = RowOf(p, entry, index / p.q_heads, index % p.q_heads);
        if (row.splits > few) visit(row);
      }
      rows = end;
    }
  }
}

}  // namespace
}  // namespace sluice::cuda

// Rows of few splits, four columns of which can be read at once.
extern "C" __global__ void __launch_bounds__(sluice::cuda::kCombineThreadsMax, 4)
    any_f32_attention_combine_few(const __grid_constant__ sluice::cuda::AttentionParams params) {
  using namespace sluice::cuda;
  __shared__ Near near;
  WaitForInputs();
  near.Read(params);
  const int rows = near.head[kSplitRows] * params.q_heads;
  const int warps = static_cast<int>(blockDim.x) / 32, warp = static_cast<int>(threadIdx.x) / 32;
  for (int i = static_cast<int>(blockIdx.x) * warps + warp; i < rows;
       i += static_cast<int>(gridDim.x) * warps) {
    const Row row = RowAt(params, near, i);
    // One split is already written.
    if (row.splits > 1 && row.splits <= kWarpSplits) CombineFew(params, row);
  }
}

// The others.
extern "C" __global__ void __launch_bounds__(sluice::cuda::kCombineThreadsMax)
    any_f32_attention_combine_many(const __grid_constant__ sluice::cuda::AttentionParams params) {
  using namespace sluice::cuda;
  __shared__ Shared shared;
  extern __shared__ __align__(16) float staged[];
  WaitForInputs();
  shared.near.Read(params);
  ForRowsOfMany(params, shared.near, ReadsFour(params) ? kWarpSplits : 1,
                [&](const Row& row) { CombineMany(params, row, shared, staged); });
}
