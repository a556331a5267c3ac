// The first products of experts and what their gates open for, on CUDA devices.
#pragma once

#include "ops/op.h"

namespace sluice::cuda {

void RegisterGroupedGate(ops::OpTable& table);

}  // namespace sluice::cuda
