// rope_kv on the CPU.
#pragma once

#include "ops/op.h"

namespace sluice::cpu {

void RegisterRopeKv(ops::OpTable& table);

}  // namespace sluice::cpu
