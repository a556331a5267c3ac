// What all attention kernels agree on: which rows a tile has, which positions a row sees, and how
// the partial results of splits are combined.
#pragma once

#include "backend/cuda/attention/params.h"

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

// A sequence as a kernel sees it.
struct SequenceAt {
  int index, first_token, tokens, context;

  __device__ int Position(int token) const { return context - tokens + token; }
};

__device__ inline SequenceAt LoadSequence(const AttentionParams& p, int index) {
  SequenceAt at;
  at.index = index;
  at.first_token = p.query_start[index];
  at.tokens = min(p.query_start[index + 1], p.tokens) - at.first_token;
  at.context = static_cast<int>(
      min(static_cast<int64_t>(p.context[index]), int64_t{p.blocks_max} * p.block_tokens));
  return at;
}

// Positions [first, end) that the query row at `position` sees.
struct Visible {
  int first, end;

  __device__ int first_split() const { return first / kSplitTokens; }
  __device__ int last_split() const { return (end - 1) / kSplitTokens; }
};

__device__ inline Visible VisibleAt(const AttentionParams& p, const SequenceAt& at, int position) {
  Visible v;
  v.first = p.window > 0 && position >= p.window ? position - p.window + 1 : 0;
  v.end = p.causal != 0 ? position + 1 : at.context;
  return v;
}

// A tile: rows [row, row + rows) of a sequence for one KV head, where row r is the query token
// r / group with the head r % group of the KV head's group.
struct Tile {
  SequenceAt at;
  int row, rows;
  bool split;  // its results go through `partial` unless a row has but one split
};

// Sequence s has the tiles from floor(query_start[s] * group / kRows) + s on: as many as it can
// need, so that a grid made from the tensors' sizes alone covers every call. False for a tile that
// has no rows. All lanes call together.
template <int kRows>
__device__ bool FindTile(const AttentionParams& p, int index, Tile* tile) {
  const auto begin = [&](int s) { return int64_t{p.query_start[s]} * p.group / kRows + s; };
  const int s = LastAtMost(p.sequences, index, begin);
  tile->at = LoadSequence(p, s);
  const int rows = tile->at.tokens * p.group;
  // The last rows of a prompt see the most: they begin first.
  const int i = (rows + kRows - 1) / kRows - 1 - (index - static_cast<int>(begin(s)));
  if (i < 0 || tile->at.tokens <= 0 || tile->at.context < tile->at.tokens) return false;
  tile->row = i * kRows;
  tile->rows = min(kRows, rows - tile->row);
  tile->split = rows <= p.split_rows;
  return true;
}

// The positions that some row of [row, row + rows) sees; they follow one another.
__device__ inline Visible VisibleToRows(const AttentionParams& p, const SequenceAt& at, int row,
                                        int rows) {
  Visible all = VisibleAt(p, at, at.Position(row / p.group));
  all.end = VisibleAt(p, at, at.Position((row + rows - 1) / p.group)).end;
  return all;
}

// The KV blocks of kBlock positions that a thread block walks: those of the splits `worker`,
// `worker` + `workers`, ... of what its tile sees, ascending.
template <int kBlock>
struct BlockWalk {
  static constexpr int kPerSplit = kSplitTokens / kBlock;
  int workers, end;

  __device__ int First(const Visible& all, int worker) const {
    const int split = all.first_split() + worker;
    return max(all.first / kBlock, split * kPerSplit);
  }
  __device__ bool Has(int block) const { return block < end; }
  __device__ int Next(int block) const {
    return (block + 1) % kPerSplit != 0 ? block + 1 : block + 1 + (workers - 1) * kPerSplit;
  }
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

__device__ inline int64_t PartialRow(const AttentionParams& p, int token, int head, int split) {
  return (int64_t{token} * p.q_heads + head) * p.splits_max + split;
}

}  // namespace sluice::cuda
