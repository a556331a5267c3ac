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

// The beginning of a step's plan in shared memory. All of it is asked for at once: to find an item,
// then, no loads wait for one another where the step has no more entries than this.
template <int kNearEntries>
struct NearEntries {
  int32_t head[kHeadSize];
  PlanEntry entries[kNearEntries];

  // All threads call together.
  __device__ void Read(const AttentionParams& p) {
    const StepPlan plan = PlanOf(p.plan);
    const int thread = static_cast<int>(threadIdx.x);
    if (thread < kHeadSize) head[thread] = plan.head[thread];
    for (int i = thread; i < min(p.sequences, kNearEntries); i += static_cast<int>(blockDim.x))
      entries[i] = plan.entries[i];
    __syncthreads();
  }
  // The last entry whose `value` is at most `key`. Called by a whole warp.
  template <class Value>
  __device__ PlanEntry Find(const AttentionParams& p, int64_t key, const Value& value) const {
    if (head[kEntries] <= kNearEntries) {
      const auto near = [&](int i) { return int64_t{value(entries[i])}; };
      return entries[LastAtMost(head[kEntries], key, near)];
    }
    const PlanEntry* const all = PlanOf(p.plan).entries;
    const auto far = [&](int i) { return int64_t{value(all[i])}; };
    return all[LastAtMost(head[kEntries], key, far)];
  }
};
using NearPlan = NearEntries<32>;

// Items are handed out by number, the first to each thread block, the others to whichever asks
// next. All kernels count so in the plan's head in device memory.
__device__ inline int TakeTicket(const AttentionParams& p) {
  return static_cast<int>(gridDim.x) + atomicAdd(&p.plan[kTickets], 1);
}
// The last thread block makes the list new for who reads it next. All tickets were used by then.
__device__ inline void LeaveWork(const AttentionParams& p) {
  if (atomicAdd(&p.plan[kFinished], 1) + 1 < static_cast<int>(gridDim.x)) return;
  p.plan[kTickets] = p.plan[kFinished] = 0;
}
__device__ inline int ItemOf(const PlanEntry& entry) { return entry.item; }

// Hands a thread block one item after another of those that are not the wide kernel's. All threads
// call together. Items lie in shared memory: the kernels have no registers to spare.
class Worklist {
 public:
  struct Shared {
    NearPlan near;
    Tile tile;
  };

  __device__ explicit Worklist(Shared& shared) : shared_(shared) {}
  __device__ Worklist(const AttentionParams& p, Shared& shared) : shared_(shared) { Begin(p); }

  // Reads the plan, before the first Next.
  __device__ void Begin(const AttentionParams& p) {
    shared_.near.Read(p);
    next_ = shared_.near.head[kWideItems] + static_cast<int>(blockIdx.x);
  }

  // A tile without rows, before Begin; Streams says no to it.
  __device__ const Tile* WithoutRows() {
    Tile tile = {};
    tile.at.tokens = 1;
    tile.slot = -1;
    if (threadIdx.x == 0) shared_.tile = tile;
    __syncthreads();
    return &shared_.tile;
  }

  // Null: there is nothing left. All threads are past their use of shared memory then.
  __device__ const Tile* Next(const AttentionParams& p) {
    if (taken_) __syncthreads();
    taken_ = true;
    if (threadIdx.x < 32) Take(p);
    __syncthreads();
    return shared_.tile.rows > 0 ? &shared_.tile : nullptr;
  }

 private:
  // The first warp's part: the next item's tile, or one without rows.
  __device__ void Take(const AttentionParams& p) {
    const NearPlan& near = shared_.near;
    const int item = __shfl_sync(0xffffffffu, next_, 0);
    Tile tile = {};
    const bool more = item < near.head[kItems];
    if (more) tile = ItemAt(p, near.head[kPieceSplits], near.Find(p, item, ItemOf), item);
    if (threadIdx.x != 0) return;
    shared_.tile = tile;
    // The ticket has the time of an item to arrive.
    if (more) {
      next_ = near.head[kWideItems] + TakeTicket(p);
    } else {
      LeaveWork(p);
    }
  }

  Shared& shared_;
  int next_ = 0;  // of the first thread
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

// What a row's sums of V are multiplied by in the end: one over its weights, among which the head's
// sink has one.
__device__ inline float OverWeights(const AttentionParams& p, int head, const RowState& state) {
  if (p.sinks == nullptr) return 1.0f / state.sum;
  constexpr float kLog2E = 1.4426950408889634f;
  const float sink = p.sinks[head] * kLog2E;
  const float most = fmaxf(state.largest, sink);
  const float kept = exp2f(state.largest - most);
  return kept / __fmaf_rn(state.sum, kept, exp2f(sink - most));
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

// What the block table has, whatever it is: nothing waits for it yet. REQUIRES: the table has room
// for `place`.
__device__ inline KvRow FindPlace(const AttentionParams& p, int sequence, int place) {
  const int column = place / p.block_tokens;
  return {p.block_table[sequence * p.table_stride + column], place - column * p.block_tokens};
}
__device__ inline KvRow FindRow(const AttentionParams& p, int sequence, const Visible& all,
                                int position) {
  if (position < all.first || position >= all.end) return {-1, 0};
  return FindPlace(p, sequence, position);
}
// The same for rows of `at`, which may be one aside: the last positions that it sees lie elsewhere.
__device__ inline KvRow FindRow(const AttentionParams& p, const SequenceAt& at, const Visible& all,
                                int position) {
  if (p.aside_of == 0) return FindRow(p, at.index, all, position);
  if (position < all.first || position >= all.end) return {-1, 0};
  const int32_t* const path = p.paths + at.first_token * p.path_stride;
  const int elsewhere = position - (at.context - path[0]);
  const int place = elsewhere < 0 ? position : position + path[1 + elsewhere];
  return place < int64_t{p.blocks_max} * p.block_tokens ? FindPlace(p, at.index, place)
                                                        : KvRow{-1, 0};
}

__device__ inline KvRow Checked(const AttentionParams& p, const KvRow& at) {
  return at.block >= 0 && at.block < p.kernel_blocks ? at : KvRow{-1, 0};
}

}  // namespace sluice::cuda
