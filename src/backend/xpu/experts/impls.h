// route_experts, fake_balance_experts, map_experts, group_experts and combine_experts on an OpenCL
// device.
#pragma once

#include "ops/op.h"

namespace sluice::xpu {

void RegisterExperts(ops::OpTable& table);

}  // namespace sluice::xpu
