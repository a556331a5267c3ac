// What the gate kernels are given. Shared by host and device; strides in elements.
#pragma once

#include <cstdint>

namespace sluice::cuda {

struct GatedNormParams {
  const void* x;
  const void* gate;
  const float* weight;  // null: there is no norm
  void* out;            // may be x
  int64_t x_stride, gate_stride, out_stride, tokens;
  int64_t weight_step;  // from head to head
  int32_t heads, head_dim;
  float eps;
  bool gate_first;
  float gate_scale, out_scale;
};

inline constexpr unsigned kGatedNormWarps = 4;  // a head each

struct SigmoidGateParams {
  void* x;
  const void* gate;
  int64_t x_stride, gate_stride, tokens, width;
  uint32_t wide;  // every row begins at a multiple of 16 bytes
};

struct ScaleAddParams {
  const void* x;
  const float* gate;     // one a row
  const void* residual;  // of the type of out
  void* out;             // may be residual
  int64_t x_stride, gate_stride, residual_stride, out_stride, tokens, width;
  uint32_t wide;
};

inline constexpr unsigned kSigmoidGateThreads = 128;  // a group of eight numbers each

}  // namespace sluice::cuda
