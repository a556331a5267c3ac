// A set of byte strings with a value each, as a double-array trie: one memory access per byte.
// Immutable after Build; then thread-safe.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice::text {

class Trie {
 public:
  static constexpr int32_t kNoValue = -1;
  static constexpr uint32_t kRoot = 0;

  // Keys are not empty and differ; values are not negative. An empty list gives an empty trie.
  static Trie Build(std::vector<std::pair<std::string_view, int32_t>> keys);

  // Moves along `byte`; false when no key goes on like this.
  bool Step(unsigned char byte, uint32_t* node) const {
    uint32_t to = units_[*node].base + byte;
    if (units_[to].parent != *node) return false;
    *node = to;
    return true;
  }
  // The value of the key that ends at `node`, or kNoValue.
  int32_t ValueAt(uint32_t node) const { return units_[node].value; }

 private:
  static constexpr uint32_t kFree = UINT32_MAX;
  struct Unit {
    uint32_t base = 0;  // children stand at base + byte
    uint32_t parent = kFree;
    int32_t value = kNoValue;
  };
  std::vector<Unit> units_;
};

}  // namespace sluice::text
