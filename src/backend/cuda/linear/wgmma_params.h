// What the kernels of products in 16 bits by warpgroups are given; shared by host and device code.
#pragma once

#include <cstdint>

#include "backend/cuda/tensor_map.h"

namespace sluice::cuda {

// A unit of k: what a row of a stage in shared memory holds.
inline constexpr int kWgmmaUnit = 64;
inline constexpr int kWgmmaUnitBytes = 2 * kWgmmaUnit;
// Whole units that a stage holds. With few tokens one alone is consumed too fast.
constexpr int WgmmaUnitsPerStage(int tokens) { return tokens <= 16 ? 2 : 1; }
// Chains take a multiple of so many units in every tile, zeros behind the end: what the largest
// stage holds.
inline constexpr int kWgmmaUnitsStep = 2;
// Rows of W that a warpgroup multiplies at a time, also where fewer are asked for.
inline constexpr int kWgmmaGroupRows = 64;
inline constexpr int kWgmmaStagesMax = 32;

// Of a thread block: those that multiply, and two warps that fetch, or a warpgroup with those two.
constexpr int WgmmaThreads(int groups) { return groups == 1 ? 128 + 64 : (groups + 1) * 128; }
// Outputs of 16 tokens by a warp's 16 rows lie here while they are turned round: rows of 32 bytes,
// so far from each other that eight of them lie in different banks.
inline constexpr int kWgmmaTurnPitch = 48;
inline constexpr int kWgmmaTurnBytes = 16 * kWgmmaTurnPitch;
// Such places of a warp, all of which it fills before it reads them.
constexpr int WgmmaTurns(int tokens) {
  if (tokens % 64 == 0) return 4;
  return tokens % 32 == 0 ? 2 : 1;
}
constexpr int WgmmaTurnsBytes(int tokens, int groups) {
  return 4 * groups * WgmmaTurns(tokens) * kWgmmaTurnBytes;
}
// Of a full and an empty barrier for each stage.
inline constexpr int kWgmmaBarrierBytes = 2 * 8 * kWgmmaStagesMax;
constexpr int WgmmaStageBytes(int tokens, int rows) {
  return WgmmaUnitsPerStage(tokens) * (rows + tokens) * kWgmmaUnitBytes;
}
// An instruction reads all rows of a group; where a tile has fewer, those of the last stage lie
// behind it.
constexpr int WgmmaRingBytes(int tokens, int groups, int rows, int stages) {
  return stages * WgmmaStageBytes(tokens, rows) +
         (groups * kWgmmaGroupRows - rows) * kWgmmaUnitBytes;
}
constexpr int WgmmaSharedBytes(int tokens, int groups, int rows, int stages) {
  return WgmmaRingBytes(tokens, groups, rows, stages) + WgmmaTurnsBytes(tokens, groups) +
         kWgmmaBarrierBytes;
}
// One thread block to a multiprocessor, so that all of its memory is one deep ring. With few tokens
// some is left for the small kernels in front and behind, which begin meanwhile.
constexpr int WgmmaSharedMax(int groups) { return groups == 1 ? 208 * 1024 : 227 * 1024; }
constexpr int WgmmaStages(int tokens, int groups, int rows) {
  const int room = WgmmaSharedMax(groups) - WgmmaSharedBytes(tokens, groups, rows, 0);
  const int stages = room / WgmmaStageBytes(tokens, rows);
  return stages < kWgmmaStagesMax ? stages : kWgmmaStagesMax;
}

struct WgmmaParams {
  TensorMap w;                     // boxes of `rows` rows and a unit
  TensorMap x;                     // boxes of `x_rows` tokens and a unit
  const void* bias = nullptr;      // or null; of the kernel's type
  const void* residual = nullptr;  // or null; may be out
  void* out = nullptr;
  int64_t out_stride = 0, residual_stride = 0;  // elements
  int m = 0, n = 0, k = 0;
  int rows = 0;  // of W in a tile, a multiple of 8
  int row_tiles = 0, token_tiles = 0;
  int x_rows = 0;  // of a tile, equally many but for the last: what is behind x costs time, too
  int stages = 0;
  bool f32_out = false;  // out and residual are F32, else of the kernel's type
};

}  // namespace sluice::cuda
