// One number at a time of the formats that kernels read and write.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace sluice::cuda {

__device__ inline float ToFloat(float x) { return x; }
__device__ inline float ToFloat(__half x) { return __half2float(x); }
__device__ inline float ToFloat(__nv_bfloat16 x) { return __bfloat162float(x); }

template <class T>
__device__ T FromFloat(float x);
template <>
__device__ inline float FromFloat<float>(float x) {
  return x;
}
template <>
__device__ inline __half FromFloat<__half>(float x) {
  return __float2half_rn(x);
}
template <>
__device__ inline __nv_bfloat16 FromFloat<__nv_bfloat16>(float x) {
  return __float2bfloat16_rn(x);
}

// The number of an F8_E4M3 code that is no NaN: its bits as those of a float, whose exponent counts
// from 127 instead of 7.
__device__ inline float F8ToFloat(uint8_t code) {
  const uint32_t bits = (code & 0x80u) << 24 | (code & 0x7fu) << 20;
  return __uint_as_float(bits) * 0x1p120f;
}

}  // namespace sluice::cuda
