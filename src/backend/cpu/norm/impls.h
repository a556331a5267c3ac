// norm and qk_norm on the CPU.
#pragma once

#include "ops/op.h"

namespace sluice::cpu {

void RegisterNorm(ops::OpTable& table);

}  // namespace sluice::cpu
