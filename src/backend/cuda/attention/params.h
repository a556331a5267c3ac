// What the attention kernels take, shared by host and device. Pointers are device memory, strides
// are in elements.
#pragma once

#include <cstdint>

namespace sluice::cuda {

// Positions whose partial results are made by themselves and then combined in ascending order. A
// power of two at absolute positions: a row's bits don't depend on who computes which split.
inline constexpr int kSplitShift = 8, kSplitTokens = 1 << kSplitShift;
// A sequence of more tiles of query rows fills the device without being split.
inline constexpr int kSplitTilesMax = 4;
// Pieces of work wanted for each thread block, so that those that end early take another.
inline constexpr int kPiecesPerBlock = 4;

struct AttentionParams {
  const void* q;
  const int32_t* query_start;
  const int32_t* context;
  const int32_t* block_table;
  const void* k;
  const void* v;
  const float* k_scale;
  const float* v_scale;
  const float* sinks;  // [q_heads]: a score beside those of positions; or null
  void* out;
  float* partial;        // [slots_max, q_heads, head_dim]
  float* partial_state;  // [slots_max, q_heads, 2]: the largest score, the sum of weights
  int32_t* plan;         // plan.h
  int64_t q_stride, out_stride, table_stride;
  int64_t k_stride, v_stride, k_scale_stride, v_scale_stride;  // of kernel blocks
  int32_t tokens, sequences, kernel_blocks, blocks_max;
  int32_t q_heads, kv_heads, group, head_dim, block_tokens;
  int32_t causal, window;
  float soft_cap;          // 0: none
  float factor;            // log2 e * scale, or log2 e * soft_cap of the tanh of
  float inner_factor;      // scale / soft_cap
  int32_t tile_rows;       // query rows (tokens * group) of a tile
  int32_t wide_rows;       // of a tile of the wide kernel; 0: it is not launched
  int32_t thread_blocks;   // that share the work
  int32_t slots_max;       // partial results of a token (all heads) that there is room for
  int32_t vector_kv;       // four numbers of K or V can be read at once
  int32_t stream_tokens;   // sequences of at most so many are streamed; 0: none is
  int32_t activation, kv;  // DType
  int32_t split_shift = kSplitShift;  // splits are 2^split_shift positions
  // [tokens] rows of kPathNumbers numbers, of trees of drafts (ops/attention.h); or null.
  const int32_t* paths;
  int64_t path_stride;
  // 0: rows aside of the first branch of a tree are left out. Else they alone are computed, each as
  // a sequence of one token: `sequences` is the number of all rows of the step, and this the number
  // of rows of the block table.
  int32_t aside_of;
  // What the kernel in plain F32 alone takes; ops/attention.h says what each does to a row.
  const float* slopes;    // [q_heads], of ALiBi; or null
  int32_t chunked;        // a row sees its window's positions from a multiple of `window` on
  int32_t growth_tokens;  // 0: queries do not grow
  float growth_scale;
};

// The matrix kernels: rows of a tile, threads, and shared memory for heads of `dim` numbers with KV
// of 16 bits or of codes.
inline constexpr int kMmaRows = 64, kMmaThreads = 128, kMmaWarps = kMmaThreads / 32;
constexpr int MmaBlock(int dim) { return dim <= 128 ? 64 : 32; }
constexpr int MmaSharedBytes(int dim, bool codes) {
  const int block = MmaBlock(dim);
  const int tile = block * (dim * 2 + 16);
  const int kv = (codes ? 1 : 2) * 2 * tile + (codes ? 2 * 2 * block * dim : 2 * 16);
  const int scales = 2 * 2 * block * 4, places = 4 * block * 16;
  const int q = dim <= 128 ? 16 : dim / 16 * kMmaThreads * 16;
  return kv + scales + places + (codes ? places : 16) + q + dim / 8 * kMmaThreads * 16;
}

// The kernel that streams decode: each warp takes splits by itself and has a ring of slots, of
// boxes of so many positions in rows of 128 bytes. Two thread blocks run on a multiprocessor;
// beside the rings they have barriers, scales, the plan's beginning and tiles.
inline constexpr int kStreamRows = 8, kStreamBox = 16, kStreamWarps = 4;
inline constexpr int kStreamThreads = kStreamWarps * 32, kStreamBlocksPerUnit = 2;
inline constexpr int kStreamEntries = 256;  // of the plan, that a thread block has near
inline constexpr int kStreamSlotBytes = 8 << 10, kStreamRingBytes = 96 << 10;
constexpr int StreamBoxBytes(int dim, bool codes) {
  return kStreamBox * 128 * (codes || dim <= 64 ? 1 : 2);
}
constexpr int StreamSharedBytes(int dim, bool codes) {
  const int boxes = kStreamRingBytes / StreamBoxBytes(dim, codes);
  return kStreamRingBytes + (codes ? boxes * kStreamBox * 4 : 0) +
         kStreamRingBytes / kStreamSlotBytes * 8 + 64 + (kStreamEntries + 1) * 32 +
         kStreamWarps * (2 * 80 + 32 * 8) + 128;
}

// The wide kernel, for sequences of many query rows: two warpgroups of 64 rows each and one that
// fills rings of a split's positions of K and V, by blocks; heads of up to 64 numbers lie in one
// row of 128 bytes, others in two. Q has two slots; barriers and tiles take the rest.
inline constexpr int kWideRows = 128, kWideThreads = 384, kWideBlock = 64;
constexpr int WideHalves(int dim) { return dim <= 64 ? 1 : 2; }
constexpr int WideSharedBytes(int dim) {
  return (2 * kWideRows + 2 * kSplitTokens) * WideHalves(dim) * 128 + 1024;
}
// Boxes of pages that the copy engine brings: all of a page, or 64 positions of it.
constexpr bool WidePageFits(int tokens) {
  return tokens % kWideBlock == 0 || (tokens >= 8 && kWideBlock % tokens == 0);
}

// The kernel in plain F32.
inline constexpr int kPlainRows = 16, kPlainThreads = 128;
constexpr int PlainBlock(int dim) { return dim <= 128 ? 64 : 32; }
constexpr int PlainSharedBytes(int dim) {
  const int block = PlainBlock(dim), width = dim + 4;
  return (2 * block * width + kPlainRows * width + kPlainRows * (block + 4)) * 4 + 3 * block * 8;
}

// The kernel that combines splits: a thread per column, and room for so many splits.
inline constexpr int kCombineRows = 96;
inline constexpr int kCombineThreadsMax = 256;
constexpr int CombineThreads(int head_dim) { return head_dim <= 128 ? 128 : kCombineThreadsMax; }
constexpr unsigned CombineSharedBytes(int head_dim) {
  return kCombineRows * static_cast<unsigned>(CombineThreads(head_dim)) * 4;
}
// The splits, of 2^split_shift positions each, that so many positions from 0 on lie in.
constexpr int64_t SplitsOf(int64_t positions, int split_shift) {
  return ((positions - 1) >> split_shift) + 1;
}
inline constexpr int kPlanThreads = 32;

}  // namespace sluice::cuda
