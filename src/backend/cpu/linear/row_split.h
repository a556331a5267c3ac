// How m rows of x are cut into tiles, and which kernels take them. Pure functions.
#pragma once

#include "backend/cpu/linear/packed.h"

namespace sluice::cpu {

struct RowSplit {
  int64_t tiles = 0;
  int full = 0;  // index into LinearKernels::by_rows, for every tile but the last
  int tail = 0;  // for the last
};

// No kernel is used for less than its rows_min. REQUIRES: m >= 1.
RowSplit SplitRows(const LinearKernels& kernels, int64_t m);

// Bytes of a sub-block of a group as ManyRows::unpack writes it.
size_t UnpackedBytes(const ops::BlockFormat& format);

}  // namespace sluice::cpu
