// grouped_linear on CUDA devices.
#pragma once

#include "ops/op.h"

namespace sluice::cuda {

void RegisterGroupedLinear(ops::OpTable& table);

}  // namespace sluice::cuda
