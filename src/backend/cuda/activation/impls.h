// Gated activations and the soft cap on CUDA devices.
#pragma once

#include "ops/op.h"

namespace sluice::cuda {

void RegisterActivation(ops::OpTable& table);

}  // namespace sluice::cuda
