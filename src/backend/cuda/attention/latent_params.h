// What the latent attention kernels take, shared by host and device: the attention of one KV head
// whose V is the end of its K (ops::WholeRows).
#pragma once

#include "backend/cuda/attention/params.h"

namespace sluice::cuda {

// Where rows see listed positions alone, each token counts as a sequence of its own, which is as
// long as its list (any_i32_listed_rows.cu).
struct ListedParams {
  const int32_t* positions;    // [tokens, listed_max]; null: rows see all positions
  const int32_t* sequence_of;  // [tokens]: the row of the block table
  const int32_t* table;
  int64_t stride, table_stride;
  int32_t blocks_max, block_tokens;  // of the block table
};

inline constexpr int kListedThreads = 128;
struct ListedRowsParams {
  const int32_t *query_start, *listed;
  int32_t *query_start_out, *context_out, *sequence_of;
  int64_t listed_stride;
  int32_t tokens, sequences, listed_max;
};

struct LatentParams {
  AttentionParams rows;  // head_dim is that of K; group is q_heads
  int32_t value_width;   // the last numbers of a row
  // The kernel that combines partial results takes at most kCombineThreadsMax columns of a head. A
  // head of wider values is so many heads of equal width there, each with the state of all.
  int32_t parts;
  ListedParams listed;
  float* kept;  // of kernels whose registers hold no second sum: what each thread block's rows have
};

constexpr int LatentParts(int value_width) {
  return (value_width + kCombineThreadsMax - 1) / kCombineThreadsMax;
}

// The kernel in plain F32: rows of K and values that it has room for.
inline constexpr int kLatentKeyMax = 576, kLatentValueMax = 512;
constexpr int LatentSharedBytes(int dim) {
  const int block = PlainBlock(dim), width = dim + 4;
  return ((block + 1 + kPlainRows) * width + kPlainRows * (block + 4)) * 4 + 3 * block * 8;
}

// The kernel on warpgroup products: heads of a tile, which are of one token, positions of a block,
// slots of blocks in shared memory. A split is long, since at its end the sums of so many values
// are written and read again. What kept sums take, of each thread block.
inline constexpr int kMlaRows = 64, kMlaThreads = 384, kMlaBlock = 64, kMlaSlots = 2;
inline constexpr int kMlaSplitShift = 11, kMlaSplit = 1 << kMlaSplitShift;
inline constexpr int kMlaSharedBytes = 227 << 10;
inline constexpr int kMlaKeptBytes = kMlaRows * kLatentValueMax * 4;

}  // namespace sluice::cuda
