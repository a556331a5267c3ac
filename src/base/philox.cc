#include "base/philox.h"

namespace sluice {

std::array<uint32_t, 4> Philox(uint64_t key, const std::array<uint32_t, 4>& counter) {
  constexpr uint32_t kMultiplier0 = 0xD2511F53u, kMultiplier1 = 0xCD9E8D57u;
  constexpr uint32_t kWeyl0 = 0x9E3779B9u, kWeyl1 = 0xBB67AE85u;
  std::array<uint32_t, 4> c = counter;
  uint32_t key0 = static_cast<uint32_t>(key), key1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = static_cast<uint64_t>(kMultiplier0) * c[0];
    const uint64_t product1 = static_cast<uint64_t>(kMultiplier1) * c[2];
    c = {static_cast<uint32_t>(product1 >> 32) ^ c[1] ^ key0, static_cast<uint32_t>(product1),
         static_cast<uint32_t>(product0 >> 32) ^ c[3] ^ key1, static_cast<uint32_t>(product0)};
    key0 += kWeyl0;
    key1 += kWeyl1;
  }
  return c;
}

double UniformDraw(uint64_t seed, int32_t choice, int64_t position, DrawPurpose purpose) {
  const auto bits =
      Philox(seed, {static_cast<uint32_t>(position), static_cast<uint32_t>(position >> 32),
                    static_cast<uint32_t>(choice), static_cast<uint32_t>(purpose)});
  const uint64_t mantissa = (static_cast<uint64_t>(bits[0]) << 21) ^ (bits[1] >> 11);
  return static_cast<double>(mantissa) * 0x1.0p-53;
}

}  // namespace sluice
