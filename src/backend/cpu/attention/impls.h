// attention on the CPU.
#pragma once

#include "ops/op.h"

namespace sluice::cpu {

void RegisterAttention(ops::OpTable& table);

}  // namespace sluice::cpu
