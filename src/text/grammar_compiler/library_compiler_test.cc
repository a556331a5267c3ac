#include "text/grammar_compiler/library_compiler.h"

#include <compiled_grammar_impl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace sluice::text {
namespace {

using Mask = xgrammar::AdaptiveTokenMask;

// All bytes, and many tokens of several: ASCII, parts of UTF-8, quotes with what may follow them.
xgrammar::TokenizerInfo Vocabulary() {
  std::vector<std::string> pieces;
  for (int byte = 0; byte < 256; ++byte) pieces.emplace_back(1, static_cast<char>(byte));
  const std::string parts[] = {"a",  "b", "foo",          "ba",   "\"",   "\":", "}",
                               ",",  " ", "\xE2\x82\xAC", "\xC3", "\xA4", "0",   "12",
                               "\\", "\n"};
  for (const std::string& a : parts) {
    for (const std::string& b : parts) {
      pieces.push_back(a + b);
      for (const std::string& c : parts) pieces.push_back(a + b + c);
    }
  }
  return xgrammar::TokenizerInfo(pieces, xgrammar::VocabType::RAW, static_cast<int>(pieces.size()),
                                 std::vector<int32_t>{});
}

// Whether each token is out (0), in (1) or uncertain (2), in the library's order.
std::vector<int> Kinds(const Mask& mask, const xgrammar::TokenizerInfo& vocabulary) {
  const auto& sorted = vocabulary.GetSortedDecodedVocab();
  std::vector<int> kinds(sorted.size(), mask.store_type == Mask::StoreType::kRejected ? 1 : 0);
  for (const int32_t i : mask.accepted_indices) kinds[i] = 1;
  for (const int32_t i : mask.rejected_indices) kinds[i] = 0;
  for (size_t i = 0; i < sorted.size(); ++i) {
    if (mask.store_type == Mask::StoreType::kAcceptedBitset) {
      kinds[i] = mask.accepted_bitset[sorted[i].first] ? 1 : 0;
    }
  }
  for (const int32_t i : mask.uncertain_indices) kinds[i] = 2;
  return kinds;
}

class LibraryCompilerTest : public ::testing::Test {
 protected:
  // `uncertain_for_any`: a token may be uncertain that the library knows more of.
  void ExpectTheLibrarysMasks(FrameKind kind, const std::string& text,
                              bool uncertain_for_any = false) {
    SCOPED_TRACE(text);
    xgrammar::GrammarCompiler library(vocabulary_, 1, /*cache_enabled=*/false);
    const auto expected =
        kind == FrameKind::kEbnf
            ? library.CompileGrammar(text)
            : library.CompileJSONSchema(text, false, std::nullopt, std::pair{",", ":"}, false);
    const auto compiled = compiler_.Compile({kind, text});
    ASSERT_EQ(compiled->adaptive_token_mask_cache.size(),
              expected->adaptive_token_mask_cache.size());
    for (const auto& [state, mask] : expected->adaptive_token_mask_cache) {
      const auto found = compiled->adaptive_token_mask_cache.find(state);
      ASSERT_NE(found, compiled->adaptive_token_mask_cache.end());
      std::vector<int> kinds = Kinds(mask, vocabulary_);
      const std::vector<int> ours = Kinds(found->second, vocabulary_);
      for (size_t i = 0; i < kinds.size() && uncertain_for_any; ++i) {
        if (ours[i] == 2) kinds[i] = 2;
      }
      EXPECT_EQ(ours, kinds) << state.element_id;
    }
  }

  const xgrammar::TokenizerInfo vocabulary_ = Vocabulary();
  LibraryCompiler compiler_{vocabulary_};
};

TEST_F(LibraryCompilerTest, PatternsHaveTheMasksThatTheLibraryWouldFind) {
  for (const char* pattern :
       {"a+", "[ab]{2,8}", "(foo|ba)*", "[^\\\\x00-\\\\x1f\\\"]{0,5}", ".*a.*", "(ba|b|a)?0{3}",
        "[^a]*\\u20ac", "(a|ab)(c|bcd)*", "", "[^f]*|foo[^o]?"}) {
    const std::string schema = std::string(R"({"type":"string","pattern":")") + pattern + "\"}";
    ExpectTheLibrarysMasks(FrameKind::kJsonSchema, schema);
    ExpectTheLibrarysMasks(FrameKind::kJsonSchema, R"({"type":"object","properties":{"foo":)" +
                                                       schema + R"(},"additionalProperties":)" +
                                                       schema + R"(,"propertyNames":)" + schema +
                                                       "}");
  }
}

TEST_F(LibraryCompilerTest, WhatStandsBehindAPatternIsKnownByItsFirstBytes) {
  const auto expect = [&](const char* behind, bool uncertain_for_any) {
    ExpectTheLibrarysMasks(FrameKind::kEbnf,
                           std::string("root ::= \"b\" pattern ") + behind +
                               "\npattern ::= Regex(\"[ab]*0?\")\nmore ::= \"\" | \"12\" more\n",
                           uncertain_for_any);
  };
  for (const char* behind : {R"("")", R"("a")", R"("foo")"}) expect(behind, false);
  for (const char* behind :
       {R"("\":" [a-z])", R"([ \n]* "}")", R"(more)", R"("foo" more)", R"("\"" "," more)"}) {
    expect(behind, true);
  }
  ExpectTheLibrarysMasks(FrameKind::kEbnf, "root ::= Regex(\"(foo|a)+\")\n");
}

TEST_F(LibraryCompilerTest, OtherRulesAreLeftToTheLibrary) {
  ExpectTheLibrarysMasks(FrameKind::kEbnf,
                         "root ::= \"[\" root \"]\" | [0-9]+ \",\" root | \"\"\n");
  ExpectTheLibrarysMasks(FrameKind::kJsonSchema,
                         R"({"type":"array","items":{"type":"number"},"maxItems":3})");
}

}  // namespace
}  // namespace sluice::text
