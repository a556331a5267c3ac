// The CUDA implementation of dense chains.
#pragma once

#include "ops/op.h"

namespace sluice::cuda {

void RegisterDenseChain(ops::OpTable& table);

}  // namespace sluice::cuda
