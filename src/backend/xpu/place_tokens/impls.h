// place_tokens on an OpenCL device.
#pragma once

#include "ops/op.h"

namespace sluice::xpu {

void RegisterPlaceTokens(ops::OpTable& table);

}  // namespace sluice::xpu
