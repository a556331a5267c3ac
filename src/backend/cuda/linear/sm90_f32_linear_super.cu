// x in F32; W in the formats of blocks of 256.
#include "backend/cuda/linear/block_kernels.cuh"

namespace {
using X = float;
}

LINEAR_WORD_FORMATS(LINEAR_WORDS)
LINEAR_BYTE_FORMATS(LINEAR_BYTES)
