// What the lists of kernels are made of where W is in blocks; `type` is of DType, X the type of x
// that a file of kernels names before it uses these.
#pragma once

#include "backend/cuda/linear/kernel_list.h"
#include "backend/cuda/linear/linear_kernel.cuh"
#include "backend/cuda/linear/weight_blocks.cuh"

#define LINEAR_BLOCK_STREAM(name, type, tokens, rows, tiles, step, blocks) \
  LINEAR_STREAM(name##_stream_##tokens, rows, tiles, step, blocks,         \
                sluice::cuda::Blocks<sluice::DType::type, X>)
#define LINEAR_BLOCK_FETCHED(name, type, tokens, rows, tiles, blocks) \
  LINEAR_FETCHED(name##_stream_##tokens, rows, tiles, blocks,         \
                 sluice::cuda::Blocks<sluice::DType::type, X>)
#define LINEAR_BLOCK_TILE(name, type, tokens, rows, tiles, stages) \
  LINEAR_TILE(name##_tile_##tokens, rows, tiles, stages,           \
              sluice::cuda::Blocks<sluice::DType::type, X>)

#define LINEAR_BLOCKS(name, type) \
  LINEAR_LIST_BLOCKS(LINEAR_BLOCK_FETCHED, LINEAR_BLOCK_STREAM, LINEAR_BLOCK_TILE, name, type)
#define LINEAR_WORDS(name, type) \
  LINEAR_LIST_WORDS(LINEAR_BLOCK_STREAM, LINEAR_BLOCK_TILE, name, type)
#define LINEAR_BYTES(name, type) \
  LINEAR_LIST_BYTES(LINEAR_BLOCK_FETCHED, LINEAR_BLOCK_STREAM, LINEAR_BLOCK_TILE, name, type)
