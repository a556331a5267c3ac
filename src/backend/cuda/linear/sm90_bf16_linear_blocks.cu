// x in BF16; W in the formats of blocks of 32.
#include "backend/cuda/linear/block_kernels.cuh"

namespace {
using X = uint16_t;
}

LINEAR_BLOCK_FORMATS(LINEAR_BLOCKS)
