// The kernels for x in 16 bits, by the type of x: `name` is that of W in the same type in the names
// of the kernels, beside W in F8.
#pragma once

#include "backend/cuda/linear/linear_kernel.cuh"
#include "backend/cuda/linear/weight_plain.cuh"

#define LINEAR_16BIT(name, dtype, Factor)                             \
  namespace {                                                         \
  using sluice::DType;                                                \
  using W16 = sluice::cuda::Chained<dtype, Factor, true>;             \
  using W16Any = sluice::cuda::Chained<dtype, Factor, false>;         \
  using W8 = sluice::cuda::Chained<DType::kF8E4M3, Factor, true>;     \
  using W8Any = sluice::cuda::Chained<DType::kF8E4M3, Factor, false>; \
  }                                                                   \
  LINEAR_STREAM(name##_stream_8, 1, 1, 8, 2, W16)                     \
  LINEAR_STREAM(name##_stream_16, 1, 2, 8, 2, W16)                    \
  LINEAR_STREAM(name##_stream_32, 2, 4, 2, 2, W16)                    \
  LINEAR_STREAM(name##_stream_64, 2, 8, 2, 2, W16)                    \
  LINEAR_TILE(name##_tile_64, 2, 8, 4, W16)                           \
  LINEAR_STREAM(name##_any_8, 1, 1, 1, 2, W16Any)                     \
  LINEAR_STREAM(f8_stream_8, 1, 1, 4, 2, W8)                          \
  LINEAR_STREAM(f8_stream_16, 1, 2, 4, 2, W8)                         \
  LINEAR_STREAM(f8_stream_32, 2, 4, 2, 2, W8)                         \
  LINEAR_STREAM(f8_stream_64, 2, 8, 1, 1, W8)                         \
  LINEAR_STREAM(f8_any_8, 1, 1, 1, 2, W8Any)
