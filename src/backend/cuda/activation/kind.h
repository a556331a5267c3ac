// The kernels' names of ops::Activation.
#pragma once

#include <optional>

#include "backend/cuda/activation/params.h"
#include "ops/activation.h"

namespace sluice::cuda {

// Nothing for the kinds that kernels lack.
std::optional<ActivationKind> KindOf(ops::Activation kind);

}  // namespace sluice::cuda
