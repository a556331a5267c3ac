// The merges of byte-pair encoding: a hash table from pairs of ids, which a file cannot fill with
// collisions (base/seeded_hash.h). Immutable after its inserts; then thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/seeded_hash.h"

namespace sluice::text {

struct Merge {
  static constexpr uint32_t kNoRank = UINT32_MAX;

  uint64_t pair = UINT64_MAX;  // left id << 32 | right id
  uint32_t rank = kNoRank;
  int32_t id = 0;  // of the joined piece
};

class MergeTable {
 public:
  explicit MergeTable(size_t merges_max = 0, const HashSeed& seed = ProcessHashSeed())
      : seed_(seed) {
    int bits = 4;
    while ((size_t{1} << bits) < merges_max * 2) ++bits;
    slots_.resize(size_t{1} << bits);
  }

  // A pair that is already there takes the new rank and id.
  // REQUIRES: fewer than merges_max inserts before; ids are not negative.
  void Insert(int32_t left, int32_t right, uint32_t rank, int32_t id) {
    const uint64_t pair = PairOf(left, right);
    slots_[SlotOf(pair)] = {pair, rank, id};
  }

  // Its rank is kNoRank where the pair has none.
  const Merge& Find(int32_t left, int32_t right) const {
    return slots_[SlotOf(PairOf(left, right))];
  }

  // The most slots that a look-up of a pair passes, for tests.
  size_t LongestProbe() const {
    size_t longest = 0;
    for (size_t slot = 0; slot < slots_.size(); ++slot) {
      if (slots_[slot].pair == UINT64_MAX) continue;
      longest = std::max(longest, (slot - HashWord(slots_[slot].pair, seed_)) & Mask());
    }
    return longest;
  }

 private:
  static uint64_t PairOf(int32_t left, int32_t right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }
  size_t Mask() const { return slots_.size() - 1; }
  // Where `pair` is, or belongs.
  size_t SlotOf(uint64_t pair) const {
    size_t slot = HashWord(pair, seed_) & Mask();
    while (slots_[slot].pair != pair && slots_[slot].pair != UINT64_MAX) slot = (slot + 1) & Mask();
    return slot;
  }

  HashSeed seed_;
  std::vector<Merge> slots_;
};

}  // namespace sluice::text
