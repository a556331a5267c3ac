// next_tokens and keep_guesses on an OpenCL device.
#pragma once

#include "ops/op.h"

namespace sluice::xpu {

void RegisterDraftTokens(ops::OpTable& table);

}  // namespace sluice::xpu
