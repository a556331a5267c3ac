// Makes the unpacked groups that packed.h describes. For files compiled for AVX-512 or above.
#pragma once

#include "backend/cpu/linear/avx512_vector.h"

namespace sluice::cpu {
namespace {

// Bytes of an unpacked sub-block.
template <int kFormat>
inline constexpr int kUnitBytes = ops::kBlockFormats[kFormat].sub * 16 + 64 +
                                  (ops::kBlockFormats[kFormat].minimum ? 64 : 0);

// `kSigned`: codes are value - offset.
template <int kFormat, bool kSigned>
void Unpack(const std::byte* group, int64_t steps, std::byte* unpacked) {
  using V = V512;
  using Layout = GroupLayout<kFormat, V::kLanes>;
  constexpr ops::BlockFormat kBlock = ops::kBlockFormats[kFormat];
  constexpr int kSubs = kActivationBlock / kBlock.sub;
  constexpr int kStepsPerBlock = kBlock.block / kActivationBlock;
  constexpr int kOffset = kSigned ? kBlock.offset : 0;
  const std::byte* planes = group;
  const std::byte* scales = group + steps * Layout::kCodeBytes;
  for (int64_t step = 0; step < steps; step += kStepsPerBlock) {
    const V::F d = LoadBlockScale<V, kFormat>(scales);
    V::F m = V::ZeroFloat();
    if constexpr (kBlock.minimum) m = V::LoadF16(scales + Layout::kScaleBytes);
    scales += Layout::kScaleBytes + Layout::kMinimumBytes;
    for (int i = 0; i < kStepsPerBlock; ++i) {
      V::Prefetch(planes, Layout::kCodeBytes);
      Unroll<0, kSubs>(SLUICE_EACH(s) {
        constexpr int kVectors = kBlock.sub / 4;
        Unroll<0, kVectors>(SLUICE_EACH(v) {
          const V::I codes = Codes<V, kFormat, s.value * kVectors + v.value>(planes);
          _mm512_store_si512(unpacked + 64 * v.value, _mm512_sub_epi8(codes, V::Byte(kOffset)));
        });
        V::F scale = d, minimum = m;
        SubScales<V, kFormat>(scales, &scale, &minimum);
        _mm512_store_ps(unpacked + 64 * kVectors, scale);
        if constexpr (kBlock.minimum) _mm512_store_ps(unpacked + 64 * kVectors + 64, minimum);
        scales += Layout::kSubBytes;
        unpacked += kUnitBytes<kFormat>;
      });
      planes += Layout::kCodeBytes;
    }
  }
}

}  // namespace
}  // namespace sluice::cpu
