// What sparse attention chooses positions by, on CUDA devices.
#pragma once

#include "ops/op.h"

namespace sluice::cuda {

void RegisterIndex(ops::OpTable& table);

}  // namespace sluice::cuda
