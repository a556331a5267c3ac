// Sampling on CUDA devices.
#pragma once

#include "ops/op.h"

namespace sluice::cuda {

void RegisterSampling(ops::OpTable& table);

}  // namespace sluice::cuda
