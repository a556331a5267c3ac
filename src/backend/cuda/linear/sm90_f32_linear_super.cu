// x in F32; W in the formats of blocks of 256.
#include "backend/cuda/linear/block_kernels.cuh"

#define WORDS(name, type) LINEAR_LIST_WORDS(LINEAR_BLOCK_STREAM, LINEAR_BLOCK_TILE, name, type)
#define BYTES(name, type) \
  LINEAR_LIST_BYTES(LINEAR_BLOCK_FETCHED, LINEAR_BLOCK_STREAM, LINEAR_BLOCK_TILE, name, type)

LINEAR_WORD_FORMATS(WORDS)
LINEAR_BYTE_FORMATS(BYTES)
