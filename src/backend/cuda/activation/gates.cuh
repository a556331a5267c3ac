// Activations of one number, and of a gate with the other half.
#pragma once

#include "backend/cuda/activation/params.h"

namespace sluice::cuda {

// Without the cancellation of 1 + tanh and 1 + erf near -1.
__device__ __forceinline__ float Activate(uint32_t kind, float x) {
  constexpr float kTwoSqrt2OverPi = 1.59576912160573071176f;
  constexpr float kSqrtHalf = 0.70710678118654752440f;
  if (kind == kSilu) return x / (1.0f + expf(-x));
  if (kind == kGeluTanh) {
    return x / (1.0f + expf(-kTwoSqrt2OverPi * (x + 0.044715f * x * x * x)));
  }
  if (kind == kGeluErf) return 0.5f * x * erfcf(-x * kSqrtHalf);
  return x < 0.0f ? 0.0f : x * x;
}

// Of a gate and the other half. The comparisons let NaN through.
__device__ __forceinline__ float ActivateGate(uint32_t kind, float gate, float up) {
  if (kind != kClampedSwiglu) return Activate(kind, gate) * up;
  gate = gate > kSwigluLimit ? kSwigluLimit : gate;
  up = up > kSwigluLimit ? kSwigluLimit : up < -kSwigluLimit ? -kSwigluLimit : up;
  return gate / (1.0f + expf(-kSwigluSlope * gate)) * (up + 1.0f);
}

// Whether Silu gives x / (1 + e^-x) as a division rounds it.
__device__ __forceinline__ bool IsOrdinary(float x) {
  return x > -80.0f && x < 0x1p100f && fabsf(x) > 0x1p-90f;
}
// Without the branch of a division for numbers that over- or underflow: the reciprocal and the
// corrections that it makes where they do not.
__device__ __forceinline__ float Silu(float x) {
  const float d = 1.0f + expf(-x);
  float r;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(d));
  r = __fmaf_rn(__fmaf_rn(-d, r, 1.0f), r, r);
  float q = __fmul_rn(x, r);
  q = __fmaf_rn(__fmaf_rn(-d, q, x), r, q);
  return __fmaf_rn(__fmaf_rn(-d, q, x), r, q);
}

}  // namespace sluice::cuda
