// TokenTrie: a vocabulary by the bytes that its tokens add to a text, for walking along texts that
// an answer is held to. Immutable after Make; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "text/tokenizer.h"

namespace sluice::text {

class TokenTrie {
 public:
  static constexpr int32_t kRoot = 0;

  // Of the ids below `vocab`. Special tokens, those of `left_out` and those that add nothing are
  // not in it. `first`: with the bytes that they have at the beginning of a text.
  static TokenTrie Make(const Tokenizer& tokenizer, int vocab, std::span<const TokenId> left_out,
                        bool first);

  // The node one byte further, or -1.
  int32_t Child(int32_t node, unsigned char byte) const;
  // The tokens that end here, ascending.
  std::span<const TokenId> TokensAt(int32_t node) const {
    const Node& at = nodes_[node];
    return {tokens_.data() + at.token_begin, static_cast<size_t>(at.token_count)};
  }
  size_t nodes() const { return nodes_.size(); }

 private:
  struct Node {
    int32_t token_begin = 0;
    int32_t token_count = 0;
    int32_t child_begin = 0;  // children lie one behind the other, by their bytes
    uint16_t child_count = 0;
    uint8_t byte = 0;  // that leads here
  };
  std::vector<Node> nodes_;
  std::vector<TokenId> tokens_;
};

}  // namespace sluice::text
