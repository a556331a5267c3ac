// What the kernel of a dense chain (ops/dense_chain.h) is given; shared by host and device code.
// Strides in elements.
#pragma once

#include <cstdint>

#include "backend/cuda/tensor_map.h"

namespace sluice::cuda {

// A stage of the ring: a slab of 16 rows of W by 4 units of 128 of k. A warpgroup multiplies it
// with one chain of instructions, each of its warps one unit.
inline constexpr int kChainUnit = 128, kChainSlab = 16, kChainStageUnits = 4;
inline constexpr int kChainStageK = kChainUnit * kChainStageUnits;
inline constexpr int kChainStageBytes = kChainSlab * kChainStageK;
// Warpgroups that multiply, each one of the stages of a piece; behind them a warp that fetches W
// and one that finishes sums.
inline constexpr int kChainGroups = 4;
inline constexpr int kChainWarps = 4 * kChainGroups;
inline constexpr int kChainMultipliers = 32 * kChainWarps;
inline constexpr int kChainThreads = kChainMultipliers + 64;
// Pieces whose sums by units wait to be added.
inline constexpr int kChainPieces = 4;
inline constexpr int kChainStagesMax = 32;
inline constexpr int kChainUnitsMax = 256;
inline constexpr int kChainHiddenMax = kChainMultipliers * 8;
inline constexpr int kChainPhases = 4;

// Columns of the matrix instructions: a token's codes of each unit of a stage are one.
constexpr int ChainColumns(int tokens) { return kChainStageUnits * tokens; }
constexpr int ChainCodeBytes(int tokens, int k) {
  return k / kChainStageK * ChainColumns(tokens) * kChainUnit;
}
// Of a stage: the sums of each unit, and what they are multiplied by.
constexpr int ChainSumFloats(int tokens) { return kChainStageUnits * kChainSlab * tokens; }
constexpr int ChainScaleFloats(int tokens) { return kChainStageUnits * tokens; }
// Behind ring and codes: sums and scales of pieces, scales of x and of the ring's stages, sums of
// squares, barriers.
constexpr int ChainRestBytes(int tokens) {
  const int piece = kChainGroups * (ChainSumFloats(tokens) + ChainScaleFloats(tokens));
  const int floats = kChainPieces * piece + tokens * (kChainUnitsMax + kChainWarps) +
                     kChainStagesMax * kChainStageUnits;
  return 4 * floats + 8 * (2 * kChainStagesMax + 2 * kChainPieces + 1);
}

// A product, and what is done to its rows before and behind.
struct ChainPhase {
  TensorMap w;  // boxes of a stage
  const float* w_scales = nullptr;
  const void* x = nullptr;         // [m, k]
  const float* norm = nullptr;     // [k], weights of an RMSNorm of x; or null
  const void* residual = nullptr;  // or null
  void* out = nullptr;
  int64_t x_stride = 0, residual_stride = 0, out_stride = 0;
  int n = 0, k = 0;
  // W's rows are those of a gate and, behind, as many that it opens for: out has half as many.
  bool gated = false;
};

struct ChainParams {
  ChainPhase phases[kChainPhases];
  int phase_count = 0;
  int m = 0;
  int stages = 0, asked_max = 0;  // of the ring; that may be on their way at a time
  int code_bytes = 0;             // of the longest k
  float eps = 0.0f;
};

}  // namespace sluice::cuda
