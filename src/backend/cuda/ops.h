// The op table of a CUDA device.
#pragma once

#include "ops/op.h"

namespace sluice::cuda {

void RegisterCudaOps(ops::OpTable& table);

}  // namespace sluice::cuda
