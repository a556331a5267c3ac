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
  }

  // `piece` must outlive the vocabulary. False when it is already there (and keeps its id).
  // REQUIRES: fewer than pieces_max inserts before.
  bool Insert(std::string_view piece, int32_t id) {
    uint64_t hash = HashText(piece);
    size_t slot = hash & (slots_.size() - 1);
    for (; slots_[slot].id != kNone; slot = (slot + 1) & (slots_.size() - 1)) {
      if (slots_[slot].piece == piece) return false;
    }
    slots_[slot] = {piece, static_cast<uint32_t>(hash >> 32), id};
    return true;
  }

  int32_t Find(std::string_view piece) const {
    uint64_t hash = HashText(piece);
    for (size_t slot = hash & (slots_.size() - 1); slots_[slot].id != kNone;
         slot = (slot + 1) & (slots_.size() - 1)) {
      if (slots_[slot].hash == static_cast<uint32_t>(hash >> 32) && slots_[slot].piece == piece) {
        return slots_[slot].id;
      }
    }
    return kNone;
  }

 private:
  struct Slot {
    std::string_view piece;
    uint32_t hash = 0;
    int32_t id = kNone;
  };
  std::vector<Slot> slots_;
};

}  // namespace sluice::text
