// Linear by cuBLASLt.
#pragma once

#include "ops/op.h"

namespace sluice::cuda {

// Adds cublaslt_bf16_linear and cublaslt_f16_linear: weights of the type, row by row as the file
// has them, and activations of the same. It is faster than our kernels from some 32 rows on, slower
// below. REQUIRES: as RegisterLinear.
void RegisterCublasLtLinear(ops::OpTable& table);

}  // namespace sluice::cuda
