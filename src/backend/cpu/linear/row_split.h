// How m rows of x are cut into tiles, and which kernels take them. Pure functions.
#pragma once

#include "backend/cpu/linear/packed.h"

namespace sluice::cpu {

// From here on, matrix tiles beat the vector kernels (Sapphire Rapids, Q4_1, 1536 x 576, weights in
// memory, one thread; us): 8 rows 79 against 55, 16 rows 107 against 91, 32 rows 159 against 165.
inline constexpr int kMatrixRowsMin = 25;

struct RowSplit {
  int64_t tiles = 0;
  int full = 0;  // index into LinearKernels::by_rows, for every tile but the last
  int tail = 0;  // for the last
};

// Fewer than kMatrixRowsMin rows take no kernel that unpacks. REQUIRES: m >= 1.
RowSplit SplitRows(const LinearKernels& kernels, int64_t m);

// Bytes of a sub-block of a group as MatrixUnit::unpack writes it.
size_t UnpackedBytes(const ops::BlockFormat& format);

}  // namespace sluice::cpu
