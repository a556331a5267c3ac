// Which kernel multiplies 16-bit numbers by warpgroups and in which tiles: a pure choice by shapes
// and the number of multiprocessors. All kernels give the same bits, so a choice by m is one of
// speed alone.
#pragma once

#include <cstdint>
#include <span>

#include "backend/cuda/linear/wgmma_params.h"

namespace sluice::cuda {

// Up to half as many tokens these kernels are faster than the vendor's, at so many about as fast.
inline constexpr int64_t kFewTokens = 128;

struct WgmmaKernel {
  const char* bf16_function;
  const char* f16_function;
  int tokens, groups;  // groups of 64 rows of W
  int unit_ns;         // that a tile takes for a unit of k
};

// By tokens, ascending.
std::span<const WgmmaKernel> WgmmaKernels();

struct WgmmaShape {
  int64_t m = 0, n = 0, k = 0;
  int compute_units = 1;
};

struct WgmmaPlan {
  const WgmmaKernel* kernel = nullptr;
  int rows = 0;  // of W in a tile, a multiple of 8
  int row_tiles = 0, token_tiles = 0;
  int tokens = 0;       // of x in a tile, but the last one
  unsigned blocks = 0;  // of the grid
  int stages = 0, shared_bytes = 0;
};

// The tiles of one kernel. REQUIRES: m, n, k >= 1.
WgmmaPlan PlanWgmmaWith(const WgmmaKernel& kernel, const WgmmaShape& shape);
// Of the best kernel.
WgmmaPlan PlanWgmma(const WgmmaShape& shape);

}  // namespace sluice::cuda
