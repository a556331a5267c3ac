// The kernels of residual streams of each instruction set: plain functions over ranges of rows.
#pragma once

#include <cstdint>

namespace sluice::cpu {

struct StreamsCall {
  float* streams = nullptr;             // [rows, count * width]
  const float* other = nullptr;         // [rows, width]: what is added, or the layer's result
  const float* routes = nullptr;        // [rows, count]
  const float* coefficients = nullptr;  // [.., count]
  const float* scale = nullptr;         // [width]; null: 1
  float* out = nullptr;                 // [rows, width]; null: none
  int64_t streams_stride = 0, other_stride = 0, routes_stride = 0, coefficients_stride = 0;
  int64_t out_stride = 0, width = 0;
  int count = 0;
};

struct StreamsKernels {
  void (*predict)(const StreamsCall& call, int64_t begin, int64_t end);
  void (*correct)(const StreamsCall& call, int64_t begin, int64_t end);
  void (*level)(const StreamsCall& call, int64_t begin, int64_t end);
};

extern const StreamsKernels kAvx2StreamsKernels, kAvx512StreamsKernels;

}  // namespace sluice::cpu
