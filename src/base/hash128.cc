#include "base/hash128.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace sluice {
namespace {

constexpr uint64_t kC1 = 0x87c37b91114253d5ull;
constexpr uint64_t kC2 = 0x4cf5ad432745937full;

uint64_t Finalize(uint64_t k) {
  k ^= k >> 33;
  k *= 0xff51afd7ed558ccdull;
  k ^= k >> 33;
  k *= 0xc4ceb9fe1a85ec53ull;
  return k ^ (k >> 33);
}

}  // namespace

Hash128 HashBytes(std::span<const std::byte> bytes, const Hash128& seed) {
  uint64_t h1 = seed.high;
  uint64_t h2 = seed.low;
  for (size_t i = 0; i < bytes.size(); i += 16) {
    uint64_t block[2] = {0,
                         0};  // the last block is padded with zeros; the length is mixed in below
    std::memcpy(block, bytes.data() + i, std::min<size_t>(16, bytes.size() - i));
    h1 ^= std::rotl(block[0] * kC1, 31) * kC2;
    h1 = (std::rotl(h1, 27) + h2) * 5 + 0x52dce729;
    h2 ^= std::rotl(block[1] * kC2, 33) * kC1;
    h2 = (std::rotl(h2, 31) + h1) * 5 + 0x38495ab5;
  }
  h1 ^= bytes.size();
  h2 ^= bytes.size();
  h1 += h2;
  h2 += h1;
  h1 = Finalize(h1);
  h2 = Finalize(h2);
  h1 += h2;
  h2 += h1;
  return {h1, h2};
}

}  // namespace sluice
