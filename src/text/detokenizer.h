// Token ids of one answer, one by one, to text. Never splits a UTF-8 character and holds back no
// more than an unfinished character; what it has emitted plus Finish equals Tokenizer::Decode of
// all ids. One per sequence; not thread-safe.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "text/tokenizer.h"

namespace sluice::text {

class Detokenizer {
 public:
  // `prompt_tail`: the last ids of the prompt, which decide about a leading space of the first
  // token: it goes if a text starts there. `shown`: special tokens that are text in any case; they
  // outlive it.
  Detokenizer(std::shared_ptr<const Tokenizer> tokenizer, bool render_special,
              std::span<const TokenId> prompt_tail, std::span<const TokenId> shown = {});

  // A text starts behind `prompt_tail`, without the space that encoding puts there, when the tail
  // is empty or ends with a special token.
  static bool StartsText(const Tokenizer* tokenizer, std::span<const TokenId> prompt_tail) {
    return prompt_tail.empty() || tokenizer->IsSpecial(prompt_tail.back());
  }

  // The text that `id` completes; may be empty.
  std::string Add(TokenId id);
  // What is held back, with U+FFFD for an unfinished character.
  std::string Finish();

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;
  bool render_special_;
  std::span<const TokenId> shown_;
  bool at_start_;
  std::string pending_;  // bytes of an unfinished character
};

}  // namespace sluice::text
