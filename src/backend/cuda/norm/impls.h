// RMSNorm, LayerNorm and the norm of Q and K heads on CUDA devices.
#pragma once

#include "ops/op.h"

namespace sluice::cuda {

void RegisterNorm(ops::OpTable& table);

}  // namespace sluice::cuda
