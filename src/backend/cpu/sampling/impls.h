// Sampling on the CPU.
#pragma once

#include "ops/op.h"

namespace sluice::cpu {

void RegisterSampling(ops::OpTable& table);

}  // namespace sluice::cpu
