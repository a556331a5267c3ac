// gated_norm and sigmoid_gate on an OpenCL device.
#pragma once

#include "ops/op.h"

namespace sluice::xpu {

void RegisterGate(ops::OpTable& table);

}  // namespace sluice::xpu
