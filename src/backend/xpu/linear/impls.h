// Linear on an OpenCL device.
#pragma once

#include "ops/op.h"

namespace sluice::xpu {

void RegisterLinear(ops::OpTable& table);

}  // namespace sluice::xpu
