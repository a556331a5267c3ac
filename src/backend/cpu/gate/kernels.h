// The gate kernels of each instruction set: plain functions over ranges of rows.
#pragma once

#include <cstdint>

namespace sluice::cpu {

struct GatedNormCall {
  const float* x = nullptr;       // [rows, heads * head_dim]
  const float* gate = nullptr;    // the same
  const float* weight = nullptr;  // [head_dim], or of each head its own; null: there is no norm
  float* out = nullptr;           // may be x
  int64_t x_stride = 0, gate_stride = 0, out_stride = 0;
  int64_t weight_step = 0;  // from head to head
  int heads = 0, head_dim = 0;
  float eps = 0.0f;
  bool gate_first = false;
  float gate_scale = 1.0f, out_scale = 1.0f;
};

struct SigmoidGateCall {
  float* x = nullptr;           // [rows, width]
  const float* gate = nullptr;  // the same
  int64_t x_stride = 0, gate_stride = 0, width = 0;
};

struct ScaleAddCall {
  const float* x = nullptr;     // [rows, width]
  const float* gate = nullptr;  // [rows, 1]
  const float* residual = nullptr;
  float* out = nullptr;  // may be residual
  int64_t x_stride = 0, gate_stride = 0, residual_stride = 0, out_stride = 0, width = 0;
};

struct GateKernels {
  void (*gated_norm)(const GatedNormCall& call, int64_t begin, int64_t end);
  void (*sigmoid_gate)(const SigmoidGateCall& call, int64_t begin, int64_t end);
  void (*scale_add)(const ScaleAddCall& call, int64_t begin, int64_t end);
};

extern const GateKernels kAvx2GateKernels, kAvx512GateKernels;

}  // namespace sluice::cpu
