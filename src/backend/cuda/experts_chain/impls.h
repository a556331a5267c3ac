// Chains of the ops between two attentions where experts stand there.
#pragma once

#include "ops/op.h"

namespace sluice::cuda {

void RegisterExpertsChain(ops::OpTable& table);

}  // namespace sluice::cuda
