// What the norm kernels are given. Shared by host and device; strides in elements.
#pragma once

#include <cstdint>

namespace sluice::cuda {

struct NormParams {
  const void* added;    // to the sums first; null: nothing
  void* sums;           // what is normalized, written only where something is added
  const float* weight;  // null: the sum alone, without a norm
  const float* bias;    // null: none
  const float* scale;   // one number, of what is added to; null: none
  void* out;            // may be `added`, or `sums` of its type; null: codes alone are wanted
  uint8_t* codes;       // of what is or would be `out`; null: none are wanted
  float* code_scales;
  int64_t added_stride, sums_stride, out_stride;
  int64_t codes_stride, code_scales_stride;
  int64_t hidden;
  float eps;
  uint32_t center;        // LayerNorm
  uint32_t wide;          // every row of activations begins at a multiple of 16 bytes
  uint32_t wide_weights;  // weight and bias do
  uint32_t wide_codes;    // every row of codes begins at a multiple of 8 bytes
};

struct QkNormParams {
  void* qkv;
  const float* q_weight;
  const float* k_weight;
  int64_t stride, tokens;
  int32_t q_heads, heads;  // heads: of Q and K
  int32_t head_dim;
  float eps;
};

inline constexpr unsigned kQkNormWarps = 4;  // a head each

}  // namespace sluice::cuda
