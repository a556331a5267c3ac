// short_conv, gated_delta, ssd and selective_scan on the CPU.
#pragma once

#include "ops/op.h"

namespace sluice::cpu {

void RegisterRecurrent(ops::OpTable& table);

}  // namespace sluice::cpu
