// short_conv and gated_delta on an OpenCL device.
#pragma once

#include "ops/op.h"

namespace sluice::xpu {

void RegisterRecurrent(ops::OpTable& table);

}  // namespace sluice::xpu
