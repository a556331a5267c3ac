// route_experts, fake_balance_experts, map_experts, group_experts and combine_experts on CUDA
// devices.
#pragma once

#include "ops/op.h"

namespace sluice::cuda {

void RegisterExperts(ops::OpTable& table);

}  // namespace sluice::cuda
