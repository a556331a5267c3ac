// Fused RoPE and KV write on CUDA devices.
#pragma once

#include "ops/op.h"

namespace sluice::cuda {

void RegisterRopeKv(ops::OpTable& table);

}  // namespace sluice::cuda
