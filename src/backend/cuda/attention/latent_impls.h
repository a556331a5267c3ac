// Latent attention on CUDA devices.
#pragma once

#include "ops/op.h"

namespace sluice::cuda {

void RegisterLatentAttention(ops::OpTable& table);

}  // namespace sluice::cuda
