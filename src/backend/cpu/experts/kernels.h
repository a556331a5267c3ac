// The kernels of each instruction set around the products of experts: plain functions over ranges
// of rows.
#pragma once

#include <cstdint>

namespace sluice::cpu {

struct CombineExpertsCall {
  const float* y = nullptr;         // [places, width]
  const float* weights = nullptr;   // [rows, top_k]
  const int32_t* places = nullptr;  // [rows, top_k]
  const float* residual = nullptr;  // [rows, width] or null
  float* out = nullptr;             // may be the residual
  int64_t y_stride = 0, weights_stride = 0, places_stride = 0, residual_stride = 0, out_stride = 0;
  int64_t width = 0;
  int top_k = 0;
};

struct ExpertsKernels {
  void (*combine)(const CombineExpertsCall& call, int64_t begin, int64_t end);
};

extern const ExpertsKernels kAvx2ExpertsKernels, kAvx512ExpertsKernels;

}  // namespace sluice::cpu
