// gated_norm and sigmoid_gate on the CPU.
#pragma once

#include "ops/op.h"

namespace sluice::cpu {

void RegisterGate(ops::OpTable& table);

}  // namespace sluice::cpu
