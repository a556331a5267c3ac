// Gated activations and the soft cap on an OpenCL device.
#pragma once

#include "ops/op.h"

namespace sluice::xpu {

void RegisterActivation(ops::OpTable& table);

}  // namespace sluice::xpu
