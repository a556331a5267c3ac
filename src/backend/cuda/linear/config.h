// Which linear kernel runs and over which grid: a pure choice by shapes and the number of
// multiprocessors. Kernels of one family (arithmetic and weight format) give the same bits, so a
// choice by m is one of speed alone.
#pragma once

#include <cstdint>
#include <span>

#include "backend/cuda/linear/params.h"

namespace sluice::cuda {

struct LinearKernel {
  const char* function;
  const char* grouped;  // the same for grouped products
  int rows, tokens;     // of the output, per block
  bool tile;            // x is staged in shared memory; rows are those of eight warps
  int shared_bytes;
};

// The kernels of one arithmetic for one weight format.
struct LinearFamily {
  const char* module;
  std::span<const LinearKernel> kernels;  // streams by tokens, ascending, then the tile
  LinearKernel any;                       // for rows of W of any length; function null: none
};

// What multiplies x in `activation` by W in `weight`; kExact takes all, with x staged as F32 where
// it is in 16 bits.
LinearArithmetic NativeArithmetic(DType weight, DType activation);

// Null where there are none, as for F16 factors with F32 weights.
const LinearFamily* FindLinearFamily(LinearArithmetic arithmetic, DType weight);

struct LinearShape {
  int64_t m = 0, n = 0, k = 0;
  int compute_units = 1;
  int experts = 1;        // that the rows of x are shared out among, nobody knows how
  bool any_rows = false;  // rows of W don't begin at multiples of 16 bytes or end within a unit
};

struct LinearPlan {
  const LinearKernel* kernel = nullptr;
  unsigned token_blocks = 0, row_blocks = 0;  // as many as any sharing out of the rows can need
  int units = 0, units_per_slice = 0;
};

// How k is split into units and runs of them: the same for every m and every kernel of the weight,
// those by warpgroups too, or bits would differ. No kernel and no grid yet.
LinearPlan SplitOf(DType weight, int64_t k);

// REQUIRES: m, n, k >= 1; the family has `any` where the shape needs it.
LinearPlan PlanLinear(const LinearFamily& family, DType weight, const LinearShape& shape);

// Whether rows of W can be read 16 bytes at a time, in whole units.
bool RowsFitUnits(DType weight, int64_t k);

}  // namespace sluice::cuda
