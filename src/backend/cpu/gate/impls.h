// gated_norm, sigmoid_gate and sigmoid_gate_scale_add on the CPU.
#pragma once

#include "ops/op.h"

namespace sluice::cpu {

void RegisterGate(ops::OpTable& table);

}  // namespace sluice::cpu
