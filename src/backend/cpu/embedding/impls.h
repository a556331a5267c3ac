// embedding on the CPU.
#pragma once

#include "ops/op.h"

namespace sluice::cpu {

void RegisterEmbedding(ops::OpTable& table);

}  // namespace sluice::cpu
