// gated_activation, plain_activation and soft_cap on the CPU.
#pragma once

#include "ops/op.h"

namespace sluice::cpu {

void RegisterActivation(ops::OpTable& table);

}  // namespace sluice::cpu
