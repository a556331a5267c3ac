// How m rows of x are cut into tiles, and which kernels take them. Pure functions.
#pragma once

#include "backend/cpu/linear/packed.h"

namespace sluice::cpu {

// From here on, matrix tiles of 8 rows beat the vector kernels (Sapphire Rapids, Q4_1: a group
// is unpacked once for all rows of a tile).
inline constexpr int kMatrixRowsMin = 5;

struct RowSplit {
  int64_t tiles = 0;
  int full = 0;  // index into LinearKernels::by_rows, for every tile but the last
  int tail = 0;  // for the last
};

// Kernels that unpack share one configuration of the tile registers, so a split uses at most one of
// them. REQUIRES: m >= 1.
RowSplit SplitRows(const LinearKernels& kernels, int64_t m);

// Bytes of a sub-block of a group as MatrixUnit::unpack writes it.
size_t UnpackedBytes(const ops::BlockFormat& format);

}  // namespace sluice::cpu
