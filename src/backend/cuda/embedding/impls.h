// Embedding, gathered rows and resolved tokens on CUDA devices.
#pragma once

#include "ops/op.h"

namespace sluice::cuda {

void RegisterEmbedding(ops::OpTable& table);

}  // namespace sluice::cuda
