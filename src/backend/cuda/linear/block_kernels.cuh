// What the lists of kernels are made of where x is in F32 and W in blocks; `type` is of DType.
#pragma once

#include "backend/cuda/linear/kernel_list.h"
#include "backend/cuda/linear/linear_kernel.cuh"
#include "backend/cuda/linear/weight_blocks.cuh"

#define LINEAR_BLOCK_STREAM(name, type, tokens, rows, tiles, step, blocks) \
  LINEAR_STREAM(name##_stream_##tokens, rows, tiles, step, blocks,         \
                sluice::cuda::Blocks<sluice::DType::type>)
#define LINEAR_BLOCK_FETCHED(name, type, tokens, rows, tiles, blocks) \
  LINEAR_FETCHED(name##_stream_##tokens, rows, tiles, blocks, sluice::DType::type)
#define LINEAR_BLOCK_TILE(name, type, tokens, rows, tiles, stages) \
  LINEAR_TILE(name##_tile_##tokens, rows, tiles, stages, sluice::cuda::Blocks<sluice::DType::type>)
