// Linear's implementations on CUDA.
#pragma once

#include "ops/op.h"

namespace sluice::cuda {

// Adds them, best first. All read W row by row as the file has it. REQUIRES: the table is that of a
// CUDA device; its streams are its own.
void RegisterLinear(ops::OpTable& table);

}  // namespace sluice::cuda
