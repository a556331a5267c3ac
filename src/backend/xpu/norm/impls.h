// Norms on an OpenCL device.
#pragma once

#include "ops/op.h"

namespace sluice::xpu {

void RegisterNorm(ops::OpTable& table);

}  // namespace sluice::xpu
