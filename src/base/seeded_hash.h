// Hashes of texts whose collisions nobody can compute ahead, for tables whose keys come from a file
// or a client: whoever writes the keys does not know the seed, which each process draws anew. No
// result may depend on a hash: such a table is only ever looked up, never walked. Pure; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace sluice {

// Random words. Where they are known, colliding texts are easily found.
struct HashSeed {
  uint64_t text = 0, state = 0, end = 0;
};

HashSeed DrawHashSeed();
// That of this process, drawn at the first call.
const HashSeed& ProcessHashSeed();

// Both halves of a product, folded into one word: every bit of it depends on all bits of both.
inline uint64_t FoldedProduct(uint64_t a, uint64_t b) {
  __extension__ using Wide = unsigned __int128;
  const Wide product = static_cast<Wide>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

inline constexpr uint64_t kHashMultiplier = 0x9E3779B97F4A7C15u;

inline uint64_t HashWord(uint64_t word, const HashSeed& seed) {
  return FoldedProduct(FoldedProduct(word ^ seed.text, seed.state) ^ seed.end, kHashMultiplier);
}

// 64 bits of any bytes. Each product has a secret in both factors: with a known factor, texts could
// be chosen that collide whatever the other is.
inline uint64_t HashText(std::string_view text, const HashSeed& seed) {
  uint64_t hash = text.size();
  const char* data = text.data();
  size_t left = text.size();
  for (; left >= 8; left -= 8, data += 8) {
    uint64_t word;
    std::memcpy(&word, data, 8);
    hash = FoldedProduct(word ^ seed.text, hash ^ seed.state);
  }
  uint64_t tail = 0;
  if (left > 0) std::memcpy(&tail, data, left);
  hash = FoldedProduct(tail ^ seed.text, hash ^ seed.state);
  return FoldedProduct(hash ^ seed.end, kHashMultiplier);
}

inline uint64_t HashText(std::string_view text) { return HashText(text, ProcessHashSeed()); }

// For the containers of the standard library, whose own hash of a text has a seed that all know.
struct SeededTextHash {
  size_t operator()(std::string_view text) const { return HashText(text); }
};

}  // namespace sluice
