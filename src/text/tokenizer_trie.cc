#include "text/tokenizer_trie.h"

#include <algorithm>

namespace sluice::text {
namespace {

struct Pending {
  uint32_t node;
  size_t begin, end;  // of the sorted keys that pass through the node
  size_t depth;
};

}  // namespace

Trie Trie::Build(std::vector<std::pair<std::string_view, int32_t>> keys) {
  std::sort(keys.begin(), keys.end());
  Trie trie;
  trie.units_.resize(257);
  trie.units_[kRoot].parent = kFree - 1;
  std::vector<Pending> pending = {{kRoot, 0, keys.size(), 0}};
  size_t search_from = 1;  // units before this are mostly taken
  while (!pending.empty()) {
    auto [node, begin, end, depth] = pending.back();
    pending.pop_back();
    if (begin < end && keys[begin].first.size() == depth) {
      trie.units_[node].value = keys[begin++].second;
    }
    if (begin == end) continue;
    std::vector<std::pair<unsigned char, size_t>> children;  // byte, first key
    for (size_t i = begin; i < end; ++i) {
      auto byte = static_cast<unsigned char>(keys[i].first[depth]);
      if (children.empty() || children.back().first != byte) children.emplace_back(byte, i);
    }
    size_t slot = std::max<size_t>(search_from, children[0].first + 1);
    size_t taken = 0;
    for (size_t first = slot;; ++slot) {
      if (slot + 256 >= trie.units_.size()) trie.units_.resize(trie.units_.size() * 2);
      if (trie.units_[slot].parent != kFree) {
        ++taken;
        continue;
      }
      size_t base = slot - children[0].first;
      if (std::all_of(children.begin(), children.end(), [&](const auto& child) {
            return trie.units_[base + child.first].parent == kFree;
          })) {
        if (taken * 20 > (slot - first + 1) * 19) search_from = slot;
        break;
      }
    }
    auto base = static_cast<uint32_t>(slot - children[0].first);
    trie.units_[node].base = base;
    for (size_t i = 0; i < children.size(); ++i) {
      uint32_t child = base + children[i].first;
      trie.units_[child].parent = node;
      size_t child_end = i + 1 < children.size() ? children[i + 1].second : end;
      pending.push_back({child, children[i].second, child_end, depth + 1});
    }
  }
  trie.units_.resize(trie.units_.size() + 256);
  return trie;
}

}  // namespace sluice::text
