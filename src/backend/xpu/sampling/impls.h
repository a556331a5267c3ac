// Sampling on an OpenCL device.
#pragma once

#include "ops/op.h"

namespace sluice::xpu {

void RegisterSampling(ops::OpTable& table);

}  // namespace sluice::xpu
