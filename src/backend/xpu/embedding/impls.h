// Embedding, gathering of rows and resolving of tokens on an OpenCL device.
#pragma once

#include "ops/op.h"

namespace sluice::xpu {

void RegisterEmbedding(ops::OpTable& table);

}  // namespace sluice::xpu
