// place_tokens on CUDA devices.
#pragma once

#include "ops/op.h"

namespace sluice::cuda {

void RegisterPlaceTokens(ops::OpTable& table);

}  // namespace sluice::cuda
