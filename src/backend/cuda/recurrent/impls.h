// short_conv and gated_delta on CUDA devices.
#pragma once

#include "ops/op.h"

namespace sluice::cuda {

void RegisterRecurrent(ops::OpTable& table);

}  // namespace sluice::cuda
