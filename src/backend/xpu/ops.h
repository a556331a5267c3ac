// The op table of an OpenCL device.
#pragma once

#include "ops/op.h"

namespace sluice::xpu {

void RegisterXpuOps(ops::OpTable& table);

}  // namespace sluice::xpu
