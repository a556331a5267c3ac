// Linear by cuBLASLt.
#pragma once

#include "ops/op.h"

namespace sluice::cuda {

// Adds cublaslt_bf16_linear: BF16 weights, row by row as the file has them, and BF16 activations.
// It is faster than our kernels from some 32 rows on, slower below. REQUIRES: as RegisterLinear.
void RegisterCublasLtLinear(ops::OpTable& table);

}  // namespace sluice::cuda
