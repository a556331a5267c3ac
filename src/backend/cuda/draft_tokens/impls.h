// next_tokens and keep_guesses on CUDA devices.
#pragma once

#include "ops/op.h"

namespace sluice::cuda {

void RegisterDraftTokens(ops::OpTable& table);

}  // namespace sluice::cuda
