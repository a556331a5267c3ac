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

// What both kinds of work list do: items [begin, end) of the step's plan are handed out by number,
// the first to each thread block, the others to whichever asks next.
struct Items {
  StepPlan plan;
  int begin, end;

  __device__ int First() const { return begin + static_cast<int>(blockIdx.x); }
  __device__ int Ticket() const {
    return begin + static_cast<int>(gridDim.x) + atomicAdd(&plan.head[kTickets], 1);
  }
  // Called by a whole warp.
  __device__ Tile At(const AttentionParams& p, int item) const {
    const auto begins = [&](int entry) { return int64_t{plan.entries[entry].item}; };
    const int entry = LastAtMost(plan.head[kEntries], item, begins);
    return ItemAt(p, plan, plan.entries[entry], item);
  }
  // The last thread block makes the list new for who reads it next. All tickets were used by then.
  __device__ void Leave() const {
    if (atomicAdd(&plan.head[kFinished], 1) + 1 < static_cast<int>(gridDim.x)) return;
    plan.head[kTickets] = plan.head[kFinished] = 0;
  }
};

// Hands a thread block one item after another of those that are not the wide kernel's. All threads
// call together.
class Worklist {
 public:
  explicit __device__ Worklist(const AttentionParams& p)
      : items_(ItemsOf(PlanOf(p.plan))), next_(items_.First()) {}

  // False: there is nothing left. All threads are past their use of shared memory then.
  __device__ bool Next(const AttentionParams& p, Tile* tile) {
    __shared__ int shared_next;
    if (taken_) {
      __syncthreads();
      if (threadIdx.x == 0) shared_next = ticket_;
      __syncthreads();
      next_ = shared_next;
    }
    if (next_ >= items_.end) {
      if (threadIdx.x == 0) items_.Leave();
      return false;
    }
    taken_ = true;
    // It has the time of an item to arrive.
    if (threadIdx.x == 0) ticket_ = items_.Ticket();
    *tile = items_.At(p, next_);
    return true;
  }

 private:
  __device__ static Items ItemsOf(const StepPlan& plan) {
    return {plan, plan.head[kWideItems], plan.head[kItems]};
  }

  Items items_;
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

// The product with the first factor comes first: it can be left out where that is 1.
__device__ inline float Joined(float value, float next, const float2& factor) {
  return __fmaf_rn(next, factor.y, value * factor.x);
}

// 2^x; of numbers below 2^-126, which add nothing, 0.
__device__ inline float PowerOfTwo(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// A row's weights are relative to a score that was the largest when it was chosen. It stays until a
// block of positions has one that is larger by this (as a power of two), which weights in 16 bits
// have room for: what was summed so far is hardly ever scaled.
inline constexpr float kGrowthMax = 8.0f;

// A block's largest score, times log2 e, joins the state. Returns the factor of what was summed so
// far, and what the block's scores are relative to.
__device__ inline float Grow(RowState* state, float largest, float* base) {
  const bool grows = largest > state->largest + kGrowthMax;
  const float most = grows ? largest : state->largest;
  *base = most == -INFINITY ? 0.0f : most;  // nothing seen so far
  const float factor = grows ? PowerOfTwo(state->largest - *base) : 1.0f;
  *state = {most, __fmul_rn(state->sum, factor)};
  return factor;
}

// Whether products q.k become scores by one positive factor: the largest is then that of the
// largest product, and a weight needs one rounding before its power of two.
__device__ inline bool ScoresAreProducts(const AttentionParams& p) {
  return p.soft_cap == 0.0f && p.factor > 0.0f;
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
