// Which kernel multiplies in F8 and in which tiles: a pure choice by shapes and the number of
// multiprocessors. All kernels give the same bits, so a choice by m is one of speed alone.
#pragma once

#include <cstdint>
#include <span>

#include "backend/cuda/linear/f8_params.h"

namespace sluice::cuda {

struct F8Kernel {
  const char* rows_function;    // scales that whole rows share
  const char* blocks_function;  // scales that differ along k
  const char* grouped_rows_function;
  const char* grouped_blocks_function;
  int tokens, groups, cluster;  // groups of 64 rows of W; thread blocks that share x
  int unit_ns, tile_ns;         // that a tile takes for a unit of k, and beside
};

// By tokens, ascending.
std::span<const F8Kernel> F8Kernels();

struct F8Shape {
  int64_t m = 0, n = 0, k = 0;
  int compute_units = 1;
  int experts = 0;  // of a grouped product: the rows of x are shared out among so many
};

// Rows up to which these kernels are as fast as cuBLASLt, and faster from 1 to 32.
inline constexpr int64_t kF8FewRows = 192;

struct F8Plan {
  const F8Kernel* kernel = nullptr;
  int rows = 0;  // of W in a tile, a multiple of kF8RowsStep
  int row_tiles = 0;
  int token_tiles = 0;  // of a grouped product: on average
  unsigned blocks = 0;  // of the grid, a multiple of the cluster
  int stages = 0, stage_bytes = 0, shared_bytes = 0;
};

// The tiles of one kernel. REQUIRES: m, n, k >= 1.
F8Plan PlanF8With(const F8Kernel& kernel, const F8Shape& shape);
// Of the best kernel.
F8Plan PlanF8(const F8Shape& shape);

// What x becomes before the product: codes, and scales behind them.
struct F8Scratch {
  size_t scales = 0;         // bytes before the scales
  int64_t scale_stride = 0;  // from unit to unit, where there are several
  size_t bytes = 0;
};
F8Scratch F8ScratchOf(int64_t m, int64_t k, bool by_block);

}  // namespace sluice::cuda
