// Grids of the norm kernels. Pure; tested without a GPU.
#pragma once

#include <cstdint>

#include "backend/cuda/launch.h"

namespace sluice::cuda {

// A block per row. The number of threads, and with it the order of a row's sum, follows from the
// size of the row alone.
LaunchShape NormShape(int64_t tokens, int64_t hidden);

}  // namespace sluice::cuda
