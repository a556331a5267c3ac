// What all attention kernels agree on: how thread blocks share a step's work, which positions a row
// sees, and how the partial results of splits are combined.
#pragma once

#include "backend/cuda/attention/plan.h"

namespace sluice::cuda {

// The largest index in [0, count) whose value is at most `key`. All lanes of a warp call together
// and get the same. REQUIRES: values ascend, value(0) <= key.
template <class Value>
__device__ int LastAtMost(int count, int64_t key, const Value& value) {
  const int lane = threadIdx.x % 32;
  int low = 0, high = count;
  while (high - low > 1) {
    const int step = (high - low + 31) / 32;
    const int i = low + lane * step;
    const unsigned fits = __ballot_sync(0xffffffffu, i < high && value(i) <= key);
    low += (31 - __clz(fits)) * step;
    high = min(high, low + step);
  }
  return low;
}

// Hands a thread block one item of the step's plan after another, whichever is next when it asks.
// All threads call together.
class Worklist {
 public:
  __device__ Worklist() : next_(blockIdx.x) {}

  // False: there is nothing left. All threads are past their use of shared memory then.
  __device__ bool Next(const AttentionParams& p, Tile* tile) {
    __shared__ int shared_next;
    const StepPlan plan = PlanOf(p.plan);
    if (taken_) {
      __syncthreads();
      if (threadIdx.x == 0) shared_next = ticket_;
      __syncthreads();
      next_ = shared_next;
    }
    if (next_ >= plan.head[kItems]) {
      if (threadIdx.x == 0) Leave(plan);
      return false;
    }
    taken_ = true;
    // It has the time of an item to arrive.
    if (threadIdx.x == 0)
      ticket_ = static_cast<int>(gridDim.x) + atomicAdd(&plan.head[kTickets], 1);
    const auto begin = [&](int entry) { return int64_t{plan.entries[entry].item}; };
    const int entry = LastAtMost(plan.head[kEntries], next_, begin);
    *tile = ItemAt(p, plan, plan.entries[entry], next_);
    return true;
  }

 private:
  // The last thread block makes the list new for the next layer. All tickets were used by then.
  __device__ static void Leave(const StepPlan& plan) {
    if (atomicAdd(&plan.head[kFinished], 1) + 1 < static_cast<int>(gridDim.x)) return;
    plan.head[kTickets] = plan.head[kFinished] = 0;
  }

  int next_;
  int ticket_ = 0;
  bool taken_ = false;
};

// The positions that some row of [row, row + rows) sees; they follow one another.
__device__ inline Visible VisibleToRows(const AttentionParams& p, const SequenceAt& at, int row,
                                        int rows) {
  Visible all = VisibleAt(p, at, at.Position(row / p.group));
  all.end = VisibleAt(p, at, at.Position((row + rows - 1) / p.group)).end;
  return all;
}

// The KV blocks [begin, end) of kBlock positions that an item walks, ascending: those of its splits
// in which its tile sees something.
template <int kBlock>
struct BlockWalk {
  static constexpr int kPerSplit = kSplitTokens / kBlock;
  int begin, end;

  __device__ BlockWalk(const Tile& tile, const Visible& all)
      : begin(max(all.first / kBlock, tile.piece_begin * kPerSplit)),
        end(min((all.end + kBlock - 1) / kBlock, tile.piece_end * kPerSplit)) {}
  __device__ bool EndsSplit(int block) const {
    return (block + 1) % kPerSplit == 0 || block + 1 >= end;
  }
};

// The state of a row: the largest score (times log2 e) and the sum of weights relative to it.
struct RowState {
  float largest, sum;
};

// The factors of what was there and of what comes when the next split joins, and the new state.
__device__ inline float2 Join(RowState* state, const RowState& next) {
  const float largest = fmaxf(state->largest, next.largest);
  const float2 factor = {exp2f(state->largest - largest), exp2f(next.largest - largest)};
  state->sum = __fmaf_rn(state->sum, factor.x, next.sum * factor.y);
  state->largest = largest;
  return factor;
}

__device__ inline float Joined(float value, float next, const float2& factor) {
  return __fmaf_rn(value, factor.x, next * factor.y);
}

// Products q.k become scores times log2 e.
template <int kRows, int kColumns>
__device__ void MakeScores(const AttentionParams& p, float (&s)[kRows][kColumns]) {
  if (p.soft_cap == 0.0f) {
#pragma unroll
    for (int j = 0; j < kRows; ++j) {
#pragma unroll
      for (int i = 0; i < kColumns; ++i) s[j][i] *= p.factor;
    }
    return;
  }
#pragma unroll
  for (int j = 0; j < kRows; ++j) {
#pragma unroll
    for (int i = 0; i < kColumns; ++i) s[j][i] = tanhf(s[j][i] * p.inner_factor) * p.factor;
  }
}

// Where position `position` of a sequence lies: block -1 if nowhere.
struct KvRow {
  int block, offset;
};

// What the block table has, whatever it is: nothing waits for it yet.
__device__ inline KvRow FindRow(const AttentionParams& p, int sequence, const Visible& all,
                                int position) {
  if (position < all.first || position >= all.end) return {-1, 0};
  const int column = position / p.block_tokens;
  return {p.block_table[sequence * p.table_stride + column], position - column * p.block_tokens};
}

__device__ inline KvRow Checked(const AttentionParams& p, const KvRow& at) {
  return at.block >= 0 && at.block < p.kernel_blocks ? at : KvRow{-1, 0};
}

}  // namespace sluice::cuda
