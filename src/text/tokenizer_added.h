// Finds added tokens in text: special strings and others that are never split. Immutable; any
// thread may use it.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "files/tokenizer_data.h"
#include "text/normalizer.h"
#include "text/tokenizer_trie.h"

namespace sluice::text {

class AddedTokens {
 public:
  // Takes each part of a text in order.
  class Sink {
   public:
    virtual void Text(std::string_view text) = 0;
    virtual void Token(int32_t id) = 0;

   protected:
    ~Sink() = default;
  };

  // Those tokens whose `normalized` flag is as given; their text is normalized first if it is set.
  // Two tokens with one text: the last counts. kBadModel when a token's text is too long.
  static Result<AddedTokens> Make(const std::vector<files::AddedToken>& tokens, bool normalized,
                                  const Normalizer& normalizer);

  bool empty() const { return tokens_.empty(); }

  // Cuts `valid_utf8` at the added tokens: the leftmost match, of these the longest. Special tokens
  // are text unless `parse_special` (but still hide what they overlap, as in the package
  // `tokenizers`).
  void Split(std::string_view valid_utf8, bool parse_special, Sink* sink) const;

 private:
  struct Entry {
    int32_t id;
    bool special, left_strip, right_strip, single_word;
  };
  const Entry* MatchAt(std::string_view text, size_t start, size_t* end) const;

  std::vector<Entry> tokens_;
  Trie trie_;
  std::array<bool, 256> begins_{};  // bytes that a token begins with
};

}  // namespace sluice::text
