// The kernels of activations of each instruction set: plain functions over ranges of rows.
#pragma once

#include <cstdint>

namespace sluice::cpu {

struct GatedCall {
  const float* gate_up = nullptr;  // [rows, 2 * width]
  float* out = nullptr;            // [rows, width]
  int64_t in_stride = 0, out_stride = 0, width = 0;
  float gate_scale = 1.0f, out_scale = 1.0f;
};

struct PlainCall {
  float* x = nullptr;  // [rows, width]
  int64_t stride = 0, width = 0;
};

struct SoftCapCall {
  float* x = nullptr;  // [rows, width]
  int64_t stride = 0, width = 0;
  float cap = 0.0f;
};

struct TopKCall {
  float* x = nullptr;  // [rows, width]
  int64_t stride = 0, width = 0;
  float deviations = 0.0f;
};

struct ActivationKernels {
  // An activation, gated and alone.
  struct Pair {
    void (*gated)(const GatedCall& call, int64_t begin, int64_t end);
    void (*plain)(const PlainCall& call, int64_t begin, int64_t end);
  };
  Pair silu, gelu_tanh, gelu_erf, relu_squared, clamped_swiglu;  // the last one gated alone
  void (*soft_cap)(const SoftCapCall& call, int64_t begin, int64_t end);
  void (*gaussian_top_k)(const TopKCall& call, int64_t begin, int64_t end);
};

extern const ActivationKernels kAvx2ActivationKernels, kAvx512ActivationKernels;

}  // namespace sluice::cpu
