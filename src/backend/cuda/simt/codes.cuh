// Numbers as codes of 8 bits with a scale: code = x / scale, to the nearest even, at most +-448
// (F8_E4M3) or +-127 (I8), as ops/group_quant.h has it. Every kernel that makes codes does it here,
// so that all make the same bits.
#pragma once

#include <cuda_fp8.h>

#include "backend/cuda/simt/group.cuh"

namespace sluice::cuda {

constexpr float kF8Max = 448.0f, kI8Max = 127.0f;
// Elements that share a scale in what products read, and the threads that have them.
constexpr int kCodeGroup = 128, kCodeLanes = kCodeGroup / kGroup;

// Divides by one scale many times. The quotient by the reciprocal is corrected once by its
// remainder, which rounds it as a division does where nothing over- or underflows.
struct Divider {
  float scale, reciprocal;
  bool plain;
  static __device__ __forceinline__ Divider By(float scale) {
    return {scale, __frcp_rn(scale), !(scale > 0x1p-60f && scale < 0x1p60f)};
  }
  __device__ __forceinline__ float operator()(float x) const {
    return plain ? __fdiv_rn(x, scale) : ByReciprocal(x);
  }
  // The same where `plain` is false, without a branch.
  __device__ __forceinline__ float ByReciprocal(float x) const {
    const float q = __fmul_rn(x, reciprocal);
    const float corrected = __fmaf_rn(__fmaf_rn(-q, scale, x), reciprocal, q);
    // What is too large for a code anyway, or no number, stays.
    return fabsf(q) < 1024.0f ? corrected : q;
  }
};

// Of the largest |x| its bits, which are compared as integers, so that NaN is the largest.
__device__ __forceinline__ uint32_t MostOf(const float (&x)[kGroup]) {
  uint32_t most = 0;
#pragma unroll
  for (int i = 0; i < kGroup; ++i) most = max(most, __float_as_uint(x[i]) & 0x7fffffffu);
  return most;
}
// Of as many neighbouring threads, a power of two. Whole warps call it.
__device__ __forceinline__ uint32_t MostOfLanes(uint32_t most, int lanes) {
#pragma unroll
  for (int other = 16; other > 0; other /= 2) {
    if (other < lanes) most = max(most, __shfl_xor_sync(~0u, most, other));
  }
  return most;
}
__device__ __forceinline__ float ScaleFor(uint32_t most, float largest_code) {
  if (most >= 0x7f800000u) return __uint_as_float(0x7fc00000u);
  const float scale = __fdiv_rn(__uint_as_float(most), largest_code);
  return scale == 0.0f ? 1.0f : scale;
}
// The exponent of the smallest power of two that is no less than the scale, with its bias.
__device__ __forceinline__ uint32_t Ue8m0Of(float scale) {
  const uint32_t bits = __float_as_uint(scale);
  if (bits >= 0x7f800000u) return 255;
  return (bits >> 23) + ((bits & 0x7fffffu) != 0 ? 1 : 0);
}
__device__ __forceinline__ float Ue8m0ToFloat(uint32_t exponent) {
  return __uint_as_float(exponent == 255 ? 0x7fc00000u : exponent << 23);
}

// `wide`: the row begins at a multiple of 8 bytes. Codes from `count` on are not written.
__device__ __forceinline__ void StoreCodeWords(uint8_t* row, int64_t first, int64_t count,
                                               bool wide, const uint32_t (&words)[2]) {
  if (wide && first + kGroup <= count) {
    *reinterpret_cast<uint2*>(row + first) = make_uint2(words[0], words[1]);
    return;
  }
#pragma unroll
  for (int i = 0; i < kGroup; ++i) {
    if (first + i < count) row[first + i] = static_cast<uint8_t>(words[i / 4] >> i % 4 * 8);
  }
}
__device__ __forceinline__ void StoreF8Codes(uint8_t* row, int64_t first, int64_t count, bool wide,
                                             const Divider& divide, const float (&x)[kGroup]) {
  float quotients[kGroup];
  if (divide.plain) {
#pragma unroll
    for (int i = 0; i < kGroup; ++i) quotients[i] = divide(x[i]);
  } else {
#pragma unroll
    for (int i = 0; i < kGroup; ++i) quotients[i] = divide.ByReciprocal(x[i]);
  }
  uint32_t words[2] = {};
#pragma unroll
  for (int i = 0; i < kGroup; i += 2) {
    const __nv_fp8x2_storage_t two = __nv_cvt_float2_to_fp8x2(
        make_float2(quotients[i], quotients[i + 1]), __NV_SATFINITE, __NV_E4M3);
    words[i / 4] |= static_cast<uint32_t>(two) << i % 4 * 8;
  }
  StoreCodeWords(row, first, count, wide, words);
}
__device__ __forceinline__ void StoreI8Codes(uint8_t* row, int64_t first, int64_t count, bool wide,
                                             const Divider& divide, const float (&x)[kGroup]) {
  uint32_t words[2] = {};
#pragma unroll
  for (int i = 0; i < kGroup; ++i) {
    const int code = min(max(__float2int_rn(divide(x[i])), -127), 127);
    words[i / 4] |= (static_cast<uint32_t>(code) & 0xffu) << i % 4 * 8;
  }
  StoreCodeWords(row, first, count, wide, words);
}

// A thread's part of a row in F8, whose groups of kCodeGroup have a scale each: whole warps call it
// for neighbouring parts, where what lies behind the row is zeros. `scales`: of the row's first
// group; the next one's stands `step` numbers behind.
__device__ __forceinline__ void CodeGroup(uint8_t* row, float* scales, int64_t step, int64_t first,
                                          int64_t count, bool wide, const float (&x)[kGroup]) {
  const float scale = ScaleFor(MostOfLanes(MostOf(x), kCodeLanes), kF8Max);
  if (first >= count) return;
  StoreF8Codes(row, first, count, wide, Divider::By(scale), x);
  if (first % kCodeGroup == 0) scales[first / kCodeGroup * step] = scale;
}

}  // namespace sluice::cuda
