// The bytes that each token stands for, and the rules for the beginning of a text. Immutable; any
// thread may use it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "files/tokenizer_data.h"
#include "sluice/status.h"

namespace sluice::text {

class TokenDecoder {
 public:
  // kBadModel when a decoder step is unknown.
  static Result<TokenDecoder> Make(const files::TokenizerData& data);

  // The bytes of `id`; empty when it is out of range.
  std::string_view Bytes(int32_t id) const;
  // The bytes of `id` as the first token of a text: without the space that encoding puts there.
  std::string_view FirstBytes(int32_t id) const;
  bool IsSpecial(int32_t id) const;

 private:
  enum class Start { kKeep, kDropOneSpace, kDropSpaces };
  struct Rules {
    bool bytes = false;       // pieces are spelled in GPT-2's byte alphabet
    bool fallback = false;    // <0xNN> is a byte
    bool word_piece = false;  // a piece without the prefix begins a word
    bool clean_up = false;    // WordPiece: no space before punctuation
    std::string prefix;       // WordPiece
    std::string suffix;       // BPEDecoder: ends a word
    std::vector<std::pair<std::string, std::string>> replacements;
    Start start = Start::kKeep;
  };
  static Status AddStep(const files::TextStep& step, Rules* rules);
  static Rules DefaultRules(const files::TokenizerData& data);
  static std::string Decode(const Rules& rules, std::string_view piece);

  std::string bytes_;           // of all tokens, one after the other
  std::vector<uint32_t> ends_;  // by id
  std::vector<bool> special_;   // by id
  Start start_ = Start::kKeep;
};

}  // namespace sluice::text
