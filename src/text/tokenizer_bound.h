// How few tokens a text can become, told from its bytes alone: a prompt that cannot fit is refused
// before any work on it. Immutable; thread-safe.
#pragma once

#include <bitset>
#include <cstddef>
#include <string_view>

#include "files/tokenizer_data.h"

namespace sluice::text {

class TokenBound {
 public:
  TokenBound() = default;
  explicit TokenBound(const files::TokenizerData& data);

  // A lower bound of the number of tokens of `text`; 0 where it is not UTF-8, and where none is
  // known, because the tokenizer may drop text or take a word of any length as one unknown token.
  size_t LeastTokens(std::string_view text) const;

 private:
  void ReadPieces(const files::TokenizerData& data);
  void ReadModel(const files::TokenizerData& data);
  void ReadNormalizer(const files::TextStep& step);
  void ReadPreTokenizer(const files::TextStep& step);

  size_t bytes_per_token_ = 0;  // of the text as it came, at most; 0: not known
  bool drops_spaces_ = false;   // whitespace may vanish
  std::bitset<256> kept_ = std::bitset<256>().set();  // bytes that do not vanish
};

}  // namespace sluice::text
