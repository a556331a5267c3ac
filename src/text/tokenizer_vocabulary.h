// Pieces and their ids: a hash table over strings that others own, which a file cannot fill with
// collisions (base/seeded_hash.h). Immutable after its inserts; then thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/seeded_hash.h"

namespace sluice::text {

class Vocabulary {
 public:
  static constexpr int32_t kNone = -1;

  explicit Vocabulary(size_t pieces_max = 0, const HashSeed& seed = ProcessHashSeed())
      : seed_(seed) {
    size_t slots = 16;
    while (slots < pieces_max * 2) slots *= 2;
    slots_.resize(slots);
    pieces_.reserve(pieces_max);
  }

  // `piece` must outlive the vocabulary. False when it is already there (and keeps its id).
  // REQUIRES: fewer than pieces_max inserts before.
  bool Insert(std::string_view piece, int32_t id) {
    const uint64_t hash = HashText(piece, seed_);
    const size_t slot = SlotOf(piece, hash);
    if (slots_[slot].entry != 0) return false;
    pieces_.push_back({piece, id});
    slots_[slot] = {static_cast<uint32_t>(hash >> 32), static_cast<uint32_t>(pieces_.size())};
    return true;
  }

  int32_t Find(std::string_view piece) const {
    const Slot& slot = slots_[SlotOf(piece, HashText(piece, seed_))];
    return slot.entry == 0 ? kNone : pieces_[slot.entry - 1].id;
  }

  // The most slots that a look-up of a piece passes, for tests.
  size_t LongestProbe() const {
    size_t longest = 0;
    for (const Piece& piece : pieces_) {
      const uint64_t hash = HashText(piece.text, seed_);
      const size_t mask = slots_.size() - 1;
      longest = std::max(longest, (SlotOf(piece.text, hash) - (hash & mask)) & mask);
    }
    return longest;
  }

 private:
  // Small, so that the table of a usual vocabulary stays in the second-level cache while it is
  // filled.
  struct Slot {
    uint32_t hash = 0;   // the high half
    uint32_t entry = 0;  // of pieces_, from 1; 0: free
  };
  struct Piece {
    std::string_view text;
    int32_t id = kNone;
  };

  // Where `piece` is, or belongs.
  size_t SlotOf(std::string_view piece, uint64_t hash) const {
    size_t slot = hash & (slots_.size() - 1);
    for (; slots_[slot].entry != 0; slot = (slot + 1) & (slots_.size() - 1)) {
      if (slots_[slot].hash == static_cast<uint32_t>(hash >> 32) &&
          pieces_[slots_[slot].entry - 1].text == piece) {
        break;
      }
    }
    return slot;
  }

  HashSeed seed_;
  std::vector<Slot> slots_;
  std::vector<Piece> pieces_;  // in the order of their inserts
};

}  // namespace sluice::text
