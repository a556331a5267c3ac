// x in F32; W in the formats of blocks of 32.
#include "backend/cuda/linear/block_kernels.cuh"

namespace {
using X = float;
}

LINEAR_BLOCK_FORMATS(LINEAR_BLOCKS)
