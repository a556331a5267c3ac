// The norm kernels of each instruction set: plain functions over ranges of rows.
#pragma once

#include <cstdint>

namespace sluice::cpu {

struct NormCall {
  const float* x = nullptr;       // [rows, hidden], stride x_stride
  float* residual = nullptr;      // null without add
  const float* weight = nullptr;  // null: the sum alone, without a norm
  const float* bias = nullptr;    // null without
  const float* scale = nullptr;   // one number, of the sum with the residual; null without
  float* out = nullptr;
  int64_t x_stride = 0, residual_stride = 0, out_stride = 0, hidden = 0;
  float eps = 0.0f;
  bool center = false;  // LayerNorm
};

struct QkNormCall {
  float* qkv = nullptr;  // [rows, heads * head_dim, ...], stride `stride`
  const float* q_weight = nullptr;
  const float* k_weight = nullptr;
  int64_t stride = 0;
  int q_heads = 0, heads = 0, head_dim = 0;  // heads: Q's and K's
  float eps = 0.0f;
};

struct NormKernels {
  void (*norm)(const NormCall& call, int64_t begin, int64_t end);
  void (*qk_norm)(const QkNormCall& call, int64_t begin, int64_t end);
};

extern const NormKernels kAvx2NormKernels, kAvx512NormKernels;

}  // namespace sluice::cpu
