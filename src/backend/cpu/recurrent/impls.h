// short_conv, gated_delta and ssd on the CPU.
#pragma once

#include "ops/op.h"

namespace sluice::cpu {

void RegisterRecurrent(ops::OpTable& table);

}  // namespace sluice::cpu
