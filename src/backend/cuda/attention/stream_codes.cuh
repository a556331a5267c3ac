// Codes as the kernel that streams (stream_attention.cuh) multiplies them.
#pragma once

#include "backend/cuda/attention/kv_codes.cuh"

namespace sluice::cuda {

// Of four codes the first and the third, as bfloat16: those of F8 as 2^-120 of what they are, since
// their bits only take the place of bfloat16's. Those of the smallest numbers are then below the
// least normal one, which matrix instructions take for what they are.
template <KvForm kForm>
__device__ uint32_t PlaceEven(uint32_t codes) {
  if constexpr (kForm == KvForm::kF8) {
    return (codes << 8 & 0x80008000u) | (codes << 4 & 0x07f007f0u);
  } else {
    return WidenEven<kForm>(codes);
  }
}
// The second and the fourth.
template <KvForm kForm>
__device__ uint32_t PlaceOdd(uint32_t codes) {
  if constexpr (kForm == KvForm::kF8) {
    return (codes & 0x80008000u) | (codes >> 4 & 0x07f007f0u);
  } else {
    return WidenOdd<kForm>(codes);
  }
}
// Powers of two make up for it, which round nothing: one in the other factor of each product, and
// the rest in what is made of its sums.
template <KvForm kForm>
inline constexpr float kPlacedFactor = kForm == KvForm::kF8 ? 0x1p64f : 1.0f;
template <KvForm kForm>
inline constexpr float kPlacedRest = kForm == KvForm::kF8 ? 0x1p56f : 1.0f;

}  // namespace sluice::cuda
