// KV in codes of one byte as numbers of 16 bits, which is exact. Scales are applied elsewhere.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "backend/cuda/simt/mma.cuh"

namespace sluice::cuda {

enum class KvForm { kPlain, kF8, kI8 };

// The bits of two F8 codes where those of bfloat16 stand: the exponent is too small by 120.
__device__ inline uint32_t ScaleF8(uint32_t bits) {
  const __nv_bfloat162 factor = __float2bfloat162_rn(0x1p120f);
  const __nv_bfloat162 wide = __hmul2(*reinterpret_cast<const __nv_bfloat162*>(&bits), factor);
  return *reinterpret_cast<const uint32_t*>(&wide);
}

// Two codes of I8, each as 2^23 + (code + 128) in float bits, less 2^23 + 128.
__device__ inline uint32_t WidenI8(uint32_t low, uint32_t high) {
  return Pack<__nv_bfloat16>(__uint_as_float(0x4b000000u | (low ^ 0x80u)) - 8388736.0f,
                             __uint_as_float(0x4b000000u | (high ^ 0x80u)) - 8388736.0f);
}

// Eight codes as bfloat16.
template <KvForm kForm>
__device__ uint4 Widen(uint2 codes) {
  uint32_t out[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const uint32_t pair = (i < 2 ? codes.x : codes.y) >> (16 * (i % 2));
    if constexpr (kForm == KvForm::kF8) {
      out[i] = ScaleF8((pair & 0x80u) << 8 | (pair & 0x7fu) << 4 | (pair & 0x8000u) << 16 |
                       (pair & 0x7f00u) << 12);
    } else {
      out[i] = WidenI8(pair & 0xffu, pair >> 8 & 0xffu);
    }
  }
  return {out[0], out[1], out[2], out[3]};
}

// Of four codes the first and the third, as bfloat16.
template <KvForm kForm>
__device__ uint32_t WidenEven(uint32_t codes) {
  if constexpr (kForm == KvForm::kF8) {
    return ScaleF8((codes << 8 & 0x80008000u) | (codes << 4 & 0x07f007f0u));
  } else {
    return WidenI8(codes & 0xffu, codes >> 16 & 0xffu);
  }
}
// The second and the fourth.
template <KvForm kForm>
__device__ uint32_t WidenOdd(uint32_t codes) {
  if constexpr (kForm == KvForm::kF8) {
    return ScaleF8((codes & 0x80008000u) | (codes >> 4 & 0x07f007f0u));
  } else {
    return WidenI8(codes >> 8 & 0xffu, codes >> 24);
  }
}

}  // namespace sluice::cuda
