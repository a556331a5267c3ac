// route_experts, group_experts and combine_experts on the CPU.
#pragma once

#include "ops/op.h"

namespace sluice::cpu {

void RegisterExperts(ops::OpTable& table);

}  // namespace sluice::cpu
