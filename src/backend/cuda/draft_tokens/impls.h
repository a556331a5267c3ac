// next_tokens, keep_guesses, follow_trees and grow_trees on CUDA devices.
#pragma once

#include "ops/op.h"

namespace sluice::cuda {

void RegisterDraftTokens(ops::OpTable& table);

}  // namespace sluice::cuda
