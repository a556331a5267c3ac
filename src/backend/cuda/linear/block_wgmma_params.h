// What the kernels of products by warpgroups are given whose W is in a block format; shared by host
// and device code.
#pragma once

#include <cstdint>

#include "backend/cuda/linear/params.h"
#include "backend/cuda/tensor_map.h"

namespace sluice::cuda {

// A stage of the ring in shared memory holds so many elements along k: windows of 32, of which the
// matrix units add the products of one or two sub-blocks.
inline constexpr int kBlockStage = 256;
inline constexpr int kBlockWindow = 32;
inline constexpr int kBlockWindows = kBlockStage / kBlockWindow;
inline constexpr int kBlockStages = 2;
// Two warpgroups multiply, with 64 rows of W each, and one fetches.
inline constexpr int kBlockRows = 128;
inline constexpr int kBlockTokens = 128;
inline constexpr int kBlockThreads = 3 * 128;
// Bytes of 64 elements of a token, which a row of x has in shared memory, and the boxes of as many
// elements that a stage's x comes in, each of which has a place.
inline constexpr int kBlockBoxBytes = 128;
inline constexpr int kBlockBoxes = kBlockStage / 64;

constexpr int BlockElements(DType weight) { return IsSuperBlock(weight) ? 256 : 32; }
constexpr int BlockSub(DType weight) {
  return weight == DType::kQ2_K || weight == DType::kQ3_K || weight == DType::kQ6_K ? 16 : 32;
}
constexpr bool BlockHasMinimum(DType weight) {
  return weight == DType::kQ4_1 || weight == DType::kQ5_1 || weight == DType::kQ2_K ||
         weight == DType::kQ4_K || weight == DType::kQ5_K;
}
// Bytes from row to row of W in a stage: whole words of 16 bytes around the blocks, an odd number
// of them, so that the eight rows that a warp reads together lie in different banks.
constexpr int BlockPitch(DType weight) {
  const int blocks = kBlockStage / BlockElements(weight);
  const int words = (blocks * LinearBlockBytes(weight) + 15) / 16 + 1;
  return 16 * (words | 1);
}
// Sums of x over the sub-blocks of a stage, for formats with minimums.
constexpr int BlockSums(DType weight) {
  return BlockHasMinimum(weight) ? kBlockStage / BlockSub(weight) : 0;
}
// W and the sums of x: a ring of their own.
constexpr int BlockStageBytes(DType weight) {
  return kBlockRows * BlockPitch(weight) + BlockSums(weight) * kBlockTokens * 4;
}
// A warp turns the outputs of 16 tokens by its 16 rows at a time, in rows of so many floats.
inline constexpr int kBlockTurnPitch = 16 + 4;
inline constexpr int kBlockTurnBytes = 8 * 16 * kBlockTurnPitch * 4;
// The sums of slices that have ended, of each thread that multiplies.
inline constexpr int kBlockTotalBytes = kBlockRows * kBlockTokens * 4;
inline constexpr int kBlockBarrierBytes = 2 * 8 * (kBlockStages + kBlockBoxes);
constexpr int BlockSharedBytes(DType weight) {
  return kBlockBoxes * kBlockTokens * kBlockBoxBytes + kBlockStages * BlockStageBytes(weight) +
         kBlockTurnBytes + kBlockTotalBytes + kBlockBarrierBytes;
}

struct BlockWgmmaParams {
  LinearParams product;           // x is not read
  TensorMap x;                    // of the copy of x: boxes of x_rows tokens and 64 elements
  const float* x_sums = nullptr;  // [k / sub][x_sums_stride]
  int x_sums_stride = 0;          // tokens, a multiple of kBlockTokens
  int x_rows = 0;                 // a tile's tokens, or m where that is less
  int row_tiles = 0, token_tiles = 0;
  bool wide = false;  // all but W is bf16 and may be accessed by eight rows
};

// The copy of x, [m, k] in bf16, whose elements stand within each 16 as a lane has those of W: 4 t
// and the one behind it at 2 t, the two behind these at 8 + 2 t. Beside it the sums of x over
// sub-blocks of `sub` elements, where sums is not null.
struct BlockTokensParams {
  const void* x = nullptr;  // rows that begin at multiples of 8 bytes
  void* out = nullptr;
  float* sums = nullptr;
  int64_t x_stride = 0;  // elements
  int sums_stride = 0;
  int m = 0, k = 0, sub = 0;
  int windows = 0;  // of whole stages; sums behind k are zeros
};

}  // namespace sluice::cuda
