// What the kernels of experts' products in F8 with few rows each are given; shared by host and
// device code.
#pragma once

#include <cstdint>

#include "backend/cuda/activation/params.h"
#include "backend/cuda/linear/f8_params.h"
#include "backend/cuda/tensor_map.h"

namespace sluice::cuda {

// An item is what a thread block multiplies at a time: 64 rows of W for each of four warpgroups, or
// of these two the gate's rows and two those that it opens for.
inline constexpr int kF8ExpertsGroups = 4;
inline constexpr int kF8ExpertsRows = kF8ExpertsGroups * kF8GroupRows;
inline constexpr int kF8ExpertsMultipliers = 128 * kF8ExpertsGroups;
// Behind them a warp that fetches W and, where there are gates, three that make codes.
inline constexpr int kF8ExpertsFinishers = 3;
constexpr int F8ExpertsThreads(bool gated) {
  return kF8ExpertsMultipliers + 32 * (gated ? 1 + kF8ExpertsFinishers : 1);
}
// Units of a stage, which is one warpgroup's.
inline constexpr int kF8ExpertsUnits = 2;
inline constexpr int kF8ExpertsStageBytes = kF8ExpertsUnits * kF8GroupRows * kF8UnitBytes;
// A stage is always the same warpgroup's: one that is ahead of the others would else take a
// barrier's earlier phase for the next one.
inline constexpr int kF8ExpertsStagesStep = kF8ExpertsGroups, kF8ExpertsStagesMax = 16;
inline constexpr int kF8ExpertsMost = 512;
// A lane has the scales of W of two units.
inline constexpr int kF8ExpertsDepthMax = 64 * kF8Unit;
// In shared memory a token's outputs of an item, in 16 bits, so that eight tokens' lie in different
// banks.
inline constexpr int kF8ExpertsTurnPitch = kF8ExpertsRows + 8;

// Full and empty of each stage, and of the place where outputs wait for their other half.
inline constexpr int kF8ExpertsBarrierBytes = 2 * 8 * (kF8ExpertsStagesMax + 1);
// Where the places and the passes of each expert begin.
inline constexpr int kF8ExpertsTableBytes = 2 * 4 * (kF8ExpertsMost + 4);
// Behind the ring: the rows' codes and scales, outputs that wait, tables of the experts, barriers.
constexpr int F8ExpertsRestBytes(int tokens, int k, bool gated) {
  const int x = tokens * k + tokens * (k / kF8Unit) * 4;
  const int turn = gated ? tokens * kF8ExpertsTurnPitch * 2 : 0;
  return x + turn + kF8ExpertsTableBytes + kF8ExpertsBarrierBytes;
}

struct F8ExpertsParams {
  TensorMap w;                      // boxes of a stage
  const float* w_scales = nullptr;  // [experts * blocks of rows][units]
  const uint8_t* x = nullptr;       // codes
  const float* x_scales = nullptr;  // [unit][row of x]
  const int32_t* starts = nullptr;  // [experts + 1]
  const int32_t* tokens = nullptr;  // by place, its row of x; null: the place itself
  void* out = nullptr;              // by place; codes where there are gates
  float* out_scales = nullptr;      // [group][place]
  int64_t x_stride = 0, out_stride = 0;
  int x_scale_stride = 0, out_scale_stride = 0;
  int n = 0, k = 0, experts = 0;
  int stages = 0;
  uint32_t kind = 0;  // ActivationKind of gates
  DType result = DType::kF32;
  // Whether nearly every expert has rows, so that it can be guessed which weights come first.
  bool all_taken = false;
};

}  // namespace sluice::cuda
