#include "text/token_trie.h"

#include <algorithm>
#include <string>
#include <utility>

namespace sluice::text {

TokenTrie TokenTrie::Make(const Tokenizer& tokenizer, int vocab, std::span<const TokenId> left_out,
                          bool first) {
  std::vector<std::pair<std::string, TokenId>> pieces;
  for (TokenId id = 0; id < std::min(vocab, tokenizer.vocab_size()); ++id) {
    if (tokenizer.IsSpecial(id)) continue;
    if (std::find(left_out.begin(), left_out.end(), id) != left_out.end()) continue;
    std::string bytes =
        first ? tokenizer.FirstPieceBytes(id, false) : tokenizer.PieceBytes(id, false);
    if (!bytes.empty()) pieces.emplace_back(std::move(bytes), id);
  }
  std::sort(pieces.begin(), pieces.end());
  // Breadth first: the pieces of a node are [begin, end), which share its bytes.
  struct Open {
    size_t begin, end, bytes;
  };
  TokenTrie trie;
  trie.nodes_.emplace_back();
  std::vector<Open> open = {{0, pieces.size(), 0}};
  for (size_t n = 0; n < open.size(); ++n) {
    auto [at, end, bytes] = open[n];
    trie.nodes_[n].token_begin = static_cast<int32_t>(trie.tokens_.size());
    for (; at < end && pieces[at].first.size() == bytes; ++at) {
      trie.tokens_.push_back(pieces[at].second);
    }
    trie.nodes_[n].token_count =
        static_cast<int32_t>(trie.tokens_.size()) - trie.nodes_[n].token_begin;
    trie.nodes_[n].child_begin = static_cast<int32_t>(trie.nodes_.size());
    while (at < end) {
      const char byte = pieces[at].first[bytes];
      const size_t begin = at;
      while (at < end && pieces[at].first[bytes] == byte) ++at;
      open.push_back({begin, at, bytes + 1});
      trie.nodes_.push_back({.byte = static_cast<uint8_t>(byte)});
      ++trie.nodes_[n].child_count;
    }
  }
  return trie;
}

int32_t TokenTrie::Child(int32_t node, unsigned char byte) const {
  const auto begin = nodes_.begin() + nodes_[node].child_begin;
  const auto end = begin + nodes_[node].child_count;
  const auto found = std::lower_bound(
      begin, end, byte, [](const Node& child, unsigned char b) { return child.byte < b; });
  return found != end && found->byte == byte ? static_cast<int32_t>(found - nodes_.begin()) : -1;
}

}  // namespace sluice::text
