// Pieces and their ids: a hash table over strings that others own. Immutable after its inserts;
// then thread-safe.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

namespace sluice::text {

// 64 bits of any bytes; not for adversaries, who can only slow down a cache with it.
inline uint64_t HashText(std::string_view text) {
  constexpr uint64_t kMultiplier = 0x9E3779B97F4A7C15u;
  uint64_t hash = text.size() * kMultiplier;
  auto mix = [&](uint64_t word) {
    __extension__ using Wide = unsigned __int128;
    Wide product = static_cast<Wide>(hash ^ word) * kMultiplier;
    hash = static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
  };
  const char* data = text.data();
  size_t left = text.size();
  for (; left >= 8; left -= 8, data += 8) {
    uint64_t word;
    std::memcpy(&word, data, 8);
    mix(word);
  }
  uint64_t tail = 0;
  if (left > 0) std::memcpy(&tail, data, left);
  mix(tail);
  return hash ^ hash >> 29;
}

class Vocabulary {
 public:
  static constexpr int32_t kNone = -1;

  explicit Vocabulary(size_t pieces_max = 0) {
    size_t slots = 16;
    while (slots < pieces_max * 2) slots *= 2;
    slots_.resize(slots);
    pieces_.reserve(pieces_max);
  }

  // `piece` must outlive the vocabulary. False when it is already there (and keeps its id).
  // REQUIRES: fewer than pieces_max inserts before.
  bool Insert(std::string_view piece, int32_t id) {
    const uint64_t hash = HashText(piece);
    const size_t slot = SlotOf(piece, hash);
    if (slots_[slot].entry != 0) return false;
    pieces_.push_back({piece, id});
    slots_[slot] = {static_cast<uint32_t>(hash >> 32), static_cast<uint32_t>(pieces_.size())};
    return true;
  }

  int32_t Find(std::string_view piece) const {
    const Slot& slot = slots_[SlotOf(piece, HashText(piece))];
    return slot.entry == 0 ? kNone : pieces_[slot.entry - 1].id;
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

  std::vector<Slot> slots_;
  std::vector<Piece> pieces_;  // in the order of their inserts
};

}  // namespace sluice::text
