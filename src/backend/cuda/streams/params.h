// What the kernels of residual streams are given. Shared by host and device; strides in elements.
#pragma once

#include <cstdint>

namespace sluice::cuda {

inline constexpr int kStreamsMost = 4;

struct StreamsParams {
  void* streams;
  const void* other;  // what is added, or the layer's result; null: nothing
  const float* routes;
  const float* coefficients;
  const float* scale;  // null: 1
  void* out;           // null: none
  int64_t streams_stride, other_stride, routes_stride, coefficients_stride, out_stride;
  int64_t tokens, width;
  int32_t count;  // of streams
  float mean_square_min;
};

inline constexpr unsigned kStreamsThreads = 128;  // a number of each stream at a time

}  // namespace sluice::cuda
