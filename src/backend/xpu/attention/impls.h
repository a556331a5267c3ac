// Paged attention on an OpenCL device.
#pragma once

#include "ops/op.h"

namespace sluice::xpu {

void RegisterAttention(ops::OpTable& table);

}  // namespace sluice::xpu
