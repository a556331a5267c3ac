// Attention on CUDA devices.
#pragma once

#include "ops/op.h"

namespace sluice::cuda {

void RegisterAttention(ops::OpTable& table);

}  // namespace sluice::cuda
