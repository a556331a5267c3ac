// The numbers of base/philox.h on the device.
#pragma once

#include <cstdint>

namespace sluice::cuda {

// DrawPurpose of base/philox.h.
constexpr uint32_t kTokenDraw = 0, kAcceptDraw = 1, kResidualDraw = 2;

// UniformDraw of base/philox.h.
__device__ inline double UniformDraw(uint64_t seed, int32_t choice, int64_t position,
                                     uint32_t purpose) {
  uint32_t c0 = static_cast<uint32_t>(position), c1 = static_cast<uint32_t>(position >> 32);
  uint32_t c2 = static_cast<uint32_t>(choice), c3 = purpose;
  uint32_t key0 = static_cast<uint32_t>(seed), key1 = static_cast<uint32_t>(seed >> 32);
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53u} * c0, product1 = uint64_t{0xCD9E8D57u} * c2;
    c0 = static_cast<uint32_t>(product1 >> 32) ^ c1 ^ key0;
    c1 = static_cast<uint32_t>(product1);
    c2 = static_cast<uint32_t>(product0 >> 32) ^ c3 ^ key1;
    c3 = static_cast<uint32_t>(product0);
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  const uint64_t mantissa = (uint64_t{c0} << 21) ^ (c1 >> 11);
  return static_cast<double>(mantissa) * 0x1.0p-53;
}

}  // namespace sluice::cuda
