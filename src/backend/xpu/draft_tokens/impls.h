// next_tokens, keep_guesses, follow_trees and grow_trees on an OpenCL device.
#pragma once

#include "ops/op.h"

namespace sluice::xpu {

void RegisterDraftTokens(ops::OpTable& table);

}  // namespace sluice::xpu
