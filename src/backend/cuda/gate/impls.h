// gated_norm and sigmoid_gate on CUDA devices.
#pragma once

#include "ops/op.h"

namespace sluice::cuda {

void RegisterGate(ops::OpTable& table);

}  // namespace sluice::cuda
