// For tests: a vocabulary of all bytes and some longer tokens, grammars over it, and whether texts
// fit them.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/byte_alphabet.h"
#include "text/grammar.h"
#include "text/unicode/characters.h"

namespace sluice::text {

inline constexpr TokenId kEndOfAnswer = 256;

// Ids 0 to 255 are the bytes, 256 ends an answer, `more` come behind it.
inline std::shared_ptr<const Tokenizer> ByteTokenizer(
    std::vector<std::string> more = {}, bool strip_first_space = false,
    std::vector<std::pair<std::string, std::string>> merges = {}) {
  files::TokenizerData data;
  data.model = files::TokenizerModel::kByteBpe;
  data.merges = std::move(merges);
  const auto add = [&data](std::string_view bytes) {
    std::string piece;
    for (char c : bytes) AppendUtf8(ByteToCharacter(static_cast<uint8_t>(c)), &piece);
    data.pieces.push_back(std::move(piece));
  };
  for (int byte = 0; byte < 256; ++byte) add(std::string(1, static_cast<char>(byte)));
  add("<end>");
  files::AddedToken end;
  end.id = kEndOfAnswer;
  end.text = "<end>";
  end.special = true;
  data.added_tokens.push_back(end);
  for (const std::string& piece : more) add(piece);
  data.decoders.resize(strip_first_space ? 2 : 1);
  data.decoders[0].type = "ByteLevel";
  if (strip_first_space) {
    data.decoders[1].type = "Strip";
    data.decoders[1].content = " ";
    data.decoders[1].options["start"] = true;
  }
  auto made = Tokenizer::Make(std::move(data));
  EXPECT_TRUE(made.ok()) << made.status().message();
  return *made;
}

inline bool HasBit(const std::vector<uint32_t>& words, TokenId id) {
  return (words[static_cast<size_t>(id) / 32] >> (id % 32) & 1) != 0;
}

// As the engine compiles: what takes longer than a short compile may is compiled as a long one.
inline Result<std::shared_ptr<const CompiledGrammar>> Compile(const Grammar& grammar,
                                                              GrammarCompiler* compiler) {
  auto compiled = compiler->CompileShort(grammar);
  if (compiled.status().code() != StatusCode::kDeadlineExceeded) return compiled;
  return compiler->CompileLong(grammar);
}

// Whether an answer of these bytes fits, byte by byte; each is looked for in the mask, too.
inline bool Fits(const CompiledGrammar& grammar, int vocab, std::string_view text) {
  const std::unique_ptr<AnswerWalk> walk = grammar.Walk(false);
  for (const char c : text) {
    const TokenId id = static_cast<uint8_t>(c);
    std::vector<uint32_t> words((static_cast<size_t>(vocab) + 31) / 32);
    walk->AllowTokens(words);
    const bool allowed = HasBit(words, id);
    EXPECT_EQ(walk->Go(id), allowed) << text;
    if (!allowed) return false;
  }
  return walk->complete();
}

}  // namespace sluice::text
