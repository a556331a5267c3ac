// A 128-bit content hash (MurmurHash3 x64 128 with a 128-bit seed state, public domain algorithm by
// Austin Appleby), chained by using one hash as the seed of the next. Not cryptographic: whoever
// relies on equality compares the content too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace sluice {

struct Hash128 {
  uint64_t high = 0;
  uint64_t low = 0;
  friend bool operator==(const Hash128&, const Hash128&) = default;
  friend auto operator<=>(const Hash128&, const Hash128&) = default;
};

Hash128 HashBytes(std::span<const std::byte> bytes, const Hash128& seed);

}  // namespace sluice
