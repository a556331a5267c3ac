// What the kernels of products in F8 are given; shared by host and device code.
#pragma once

#include <cstdint>

#include "backend/cuda/tensor_map.h"
#include "base/dtype.h"

namespace sluice::cuda {

// A unit of k: so many products are added by the matrix instructions, whose sums keep fewer bits
// than F32, and then to the output's sum in F32. It is also what a block's scale covers.
inline constexpr int kF8Unit = 128;
// Elements of W and x in a row of a stage in shared memory are bytes.
inline constexpr int kF8UnitBytes = kF8Unit;
// Rows of W that a warpgroup multiplies at a time, also where fewer are asked for.
inline constexpr int kF8GroupRows = 64;
// Rows of a tile are a multiple of a warp's, which then lie in one block of W's scales.
inline constexpr int kF8RowsStep = 16;
inline constexpr int kF8StagesMax = 32;
// Tokens that a warpgroup turns round at a time when it writes outputs in F32, and the floats from
// one to the next in shared memory.
inline constexpr int kF8TurnTokens = 16;
inline constexpr int kF8TurnPitch = kF8GroupRows + 4;
// Scales of x lie by unit, with room for so many behind the last.
inline constexpr int64_t kF8ScaleTokens = 256;

// Of a thread block: those that multiply, and two warps that fetch, or a warpgroup with those two.
constexpr int F8Threads(int groups) { return groups == 1 ? 128 + 64 : (groups + 1) * 128; }
// Whole units that a stage holds.
constexpr int F8UnitsPerStage(int tokens) { return tokens <= 32 ? 4 : tokens <= 64 ? 2 : 1; }
// Tokens that instructions multiply at a time.
constexpr int F8Chunk(int tokens) { return tokens < 128 ? tokens : 128; }
constexpr int F8TurnTokens(int tokens) { return tokens < kF8TurnTokens ? tokens : kF8TurnTokens; }
// In 16 bits a warp turns 16 tokens by its 16 rows: rows of 32 bytes, so far from each other that
// eight of them lie in different banks.
inline constexpr int kF8Turn16Pitch = 48, kF8Turn16Bytes = 16 * kF8Turn16Pitch;
// A thread block with a multiprocessor for itself has room for all outputs of a tile in 16 bits,
// rows of 128 bytes for each group, in the swizzle of the copy engine, which takes them from there
// while the next tile is multiplied, and has brought the residual to the same place before.
inline constexpr int kF8PlaceBytes = 2 * kF8GroupRows;
constexpr bool F8HasPlaces(int groups) { return groups == 2; }
constexpr int F8TurnBytes(int tokens, int groups) {
  if (F8HasPlaces(groups)) return groups * tokens * kF8PlaceBytes;
  const int f32 = F8TurnTokens(tokens) * kF8TurnPitch * 4, f16 = 4 * kF8Turn16Bytes;
  return groups * (f32 > f16 ? f32 : f16);
}
// Of a full and an empty barrier for each stage, and one for the residual of each group.
inline constexpr int kF8BarrierBytes = 8 * (2 * kF8StagesMax + 2);
// Of the first tile of each expert, in grouped products.
inline constexpr int kF8ExpertsMax = 1024;
constexpr int F8TableBytes(bool grouped) { return grouped ? (kF8ExpertsMax + 4) * 4 : 0; }
// Blocks of W's scales that a tile's rows may lie in: those of two groups begin where blocks do.
constexpr int F8ScaleBlocks(int groups) { return groups == 1 ? 2 : 1; }
// Units of W and x, and for each block of W's scales those of a unit's products with each token;
// stages begin where swizzled rows may.
constexpr int F8StageBytes(int tokens, int groups, int rows) {
  const int unit = (rows + tokens) * kF8UnitBytes + F8ScaleBlocks(groups) * tokens * 4;
  return (F8UnitsPerStage(tokens) * unit + 1023) / 1024 * 1024;
}
// An instruction reads all rows of a group; where a tile has fewer, those of the last stage lie
// behind it.
constexpr int F8RingBytes(int stages, int stage_bytes, int groups, int rows) {
  return stages * stage_bytes + (groups * kF8GroupRows - rows) * kF8UnitBytes;
}
// Thread blocks of few tokens leave room for another, of the same product or of the next, which
// fetches weights while the one before it ends; the others have a multiprocessor for themselves.
constexpr bool F8LeavesRoom(int tokens, int groups) { return groups == 1 && tokens <= 64; }
constexpr int F8SharedMax(int tokens, int groups) {
  return F8LeavesRoom(tokens, groups) ? 113 * 1024 : 227 * 1024;
}
constexpr int F8Stages(int tokens, int groups, int rows, bool grouped) {
  const int room = F8SharedMax(tokens, groups) - F8RingBytes(0, 0, groups, rows) -
                   F8TurnBytes(tokens, groups) - kF8BarrierBytes - F8TableBytes(grouped);
  const int stages = room / F8StageBytes(tokens, groups, rows);
  return stages < kF8StagesMax ? stages : kF8StagesMax;
}

// Of a thread block that makes codes, whose threads take eight elements at a time.
inline constexpr int kF8QuantizeThreadsMax = 1024;

struct F8LinearParams {
  TensorMap w;  // boxes of `rows` rows and a unit
  TensorMap x;  // of the codes: boxes of `x_rows` tokens and a unit
  // Where `engine_writes`: of out and residual, boxes of a tile's tokens and a group's rows.
  TensorMap out_map, residual_map;
  const float* w_scales = nullptr;
  const float* x_scales = nullptr;
  const void* bias = nullptr;      // or null
  const void* residual = nullptr;  // or null; may be out
  void* out = nullptr;
  int64_t out_stride = 0, residual_stride = 0;  // elements
  int x_scale_stride = 0;                       // from unit to unit, where x has scales by block
  int m = 0, n = 0, k = 0;
  // Of grouped products: where the rows of each expert begin, [experts + 1]. n is that of an
  // expert, and w and w_scales have those of all, one behind another.
  const int32_t* starts = nullptr;
  int experts = 0;
  int64_t bias_stride = 0;             // elements from one expert's bias to the next one's
  int rows = 0;                        // of W in a tile, a multiple of kF8RowsStep
  int row_tiles = 0, token_tiles = 0;  // token_tiles: not of grouped products
  // A thread block's share of a tile's tokens, or m where that is less: what is behind x costs
  // time, too.
  int x_rows = 0;
  int stages = 0, stage_bytes = 0;
  // Whether scales differ along k, or else from row to row.
  bool w_blocks = false, x_blocks = false, w_by_row = false, x_by_row = false;
  // Whether both scales are of whole tensors; whether x's, in units or as that one, need not be
  // read for each token.
  bool one_scale = false, x_in_sums = false;
  bool wide = false;  // residual and out may be accessed by four elements, in 16 bits by eight
  bool engine_writes = false;  // the copy engine writes out and reads the residual
  DType bias_type = DType::kF32;
  DType result = DType::kF32;  // of out and residual
};

// x, [m, k] of `from`, as codes in dense rows, with scales. By block: scales[unit][token]; by row:
// scales[token]; by tensor: `scale` is read and `scales` is not written.
struct F8QuantizeParams {
  const void* x = nullptr;
  uint8_t* codes = nullptr;
  float* scales = nullptr;
  const float* scale = nullptr;
  int64_t x_stride = 0;
  // Of grouped products whose rows are named: row i of the codes is row tokens[i] of x, where i is
  // below *places. Else null.
  const int32_t* tokens = nullptr;
  const int32_t* places = nullptr;
  int scale_stride = 0;
  int k = 0;
  bool wide = false;  // rows of x begin at multiples of 16 bytes
  DType from = DType::kF32;
};

}  // namespace sluice::cuda
