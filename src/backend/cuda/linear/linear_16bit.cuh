// The kernels for x in 16 bits, by the type of x: `name` is that of W in the same type in the names
// of the kernels, beside W in F8.
#pragma once

#include "backend/cuda/linear/kernel_list.h"
#include "backend/cuda/linear/linear_kernel.cuh"
#include "backend/cuda/linear/weight_plain.cuh"

#define LINEAR_16BIT_STREAM(name, W, tokens, rows, tiles, step, blocks) \
  LINEAR_STREAM(name##_stream_##tokens, rows, tiles, step, blocks, W)
#define LINEAR_16BIT_TILE(name, W, tokens, rows, tiles, stages) \
  LINEAR_TILE(name##_tile_##tokens, rows, tiles, stages, W)
#define LINEAR_16BIT_ANY(name, W, tokens, rows, tiles, step, blocks) \
  LINEAR_STREAM(name##_any_##tokens, rows, tiles, step, blocks, W)

#define LINEAR_16BIT(name, dtype, Factor)                              \
  namespace {                                                          \
  using sluice::DType;                                                 \
  using W16 = sluice::cuda::Chained<dtype, Factor, true>;              \
  using W16Any = sluice::cuda::Chained<dtype, Factor, false>;          \
  using W8 = sluice::cuda::Chained<DType::kF8E4M3, Factor, true>;      \
  using W8Any = sluice::cuda::Chained<DType::kF8E4M3, Factor, false>;  \
  }                                                                    \
  LINEAR_LIST_16BIT(LINEAR_16BIT_STREAM, LINEAR_16BIT_TILE, name, W16) \
  LINEAR_LIST_ANY(LINEAR_16BIT_ANY, name, W16Any)                      \
  LINEAR_LIST_16BIT_F8(LINEAR_16BIT_STREAM, f8, W8)                    \
  LINEAR_LIST_ANY(LINEAR_16BIT_ANY, f8, W8Any)
