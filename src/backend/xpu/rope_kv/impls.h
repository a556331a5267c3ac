// RoPE and KV write on an OpenCL device.
#pragma once

#include "ops/op.h"

namespace sluice::xpu {

void RegisterRopeKv(ops::OpTable& table);

}  // namespace sluice::xpu
