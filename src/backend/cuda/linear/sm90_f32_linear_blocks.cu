// x in F32; W in the formats of blocks of 32.
#include "backend/cuda/linear/block_kernels.cuh"

#define BLOCKS(name, type) \
  LINEAR_LIST_BLOCKS(LINEAR_BLOCK_FETCHED, LINEAR_BLOCK_STREAM, LINEAR_BLOCK_TILE, name, type)

LINEAR_BLOCK_FORMATS(BLOCKS)
