#include "text/grammar.h"

#include <gmock/gmock.h>

#include <thread>

#include "base/str_cat.h"
#include "text/grammar_fixture.h"

namespace sluice::text {
namespace {

using ::testing::HasSubstr;
using Kind = Grammar::Kind;

class GrammarTest : public ::testing::Test {
 protected:
  // Null, with a failure, where it is refused.
  std::shared_ptr<const CompiledGrammar> Compile(Kind kind, std::string text, bool open = false) {
    auto compiled = compiler_.Compile({kind, std::move(text), open});
    EXPECT_TRUE(compiled.ok()) << compiled.status().message();
    return compiled.ok() ? *compiled : nullptr;
  }
  std::string Refusal(Kind kind, std::string text) {
    const auto compiled = compiler_.Compile({kind, std::move(text)});
    EXPECT_FALSE(compiled.ok());
    EXPECT_EQ(compiled.status().code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(compiled.status().field(), "grammar");
    EXPECT_LT(compiled.status().message().size(), 500u);
    return compiled.status().message();
  }
  bool Fits(const CompiledGrammar& grammar, std::string_view text) const {
    return text::Fits(grammar, vocab_, text);
  }

  const std::shared_ptr<const Tokenizer> tokenizer_ = ByteTokenizer({"{\"", "\":", "ab", "true"});
  const int vocab_ = tokenizer_->vocab_size();
  GrammarCompiler compiler_{tokenizer_, vocab_, {kEndOfAnswer}};
};

TEST_F(GrammarTest, ASchemaHoldsToItsTypesAndOrderWithoutWhitespace) {
  const auto grammar = Compile(Kind::kJsonSchema, R"({"type": "object", "properties": {
      "name": {"type": "string"}, "age": {"type": "integer", "minimum": 0}},
      "required": ["name", "age"], "additionalProperties": false})");
  ASSERT_NE(grammar, nullptr);
  EXPECT_TRUE(Fits(*grammar, R"({"name":"Ann","age":7})"));
  EXPECT_TRUE(Fits(*grammar, "{\"name\":\"\xE2\x82\xAC\",\"age\":70}"));
  EXPECT_FALSE(Fits(*grammar, R"({"age":7,"name":"Ann"})"));
  EXPECT_FALSE(Fits(*grammar, R"({"name": "Ann","age":7})"));
  EXPECT_FALSE(Fits(*grammar, R"({"name":"Ann","age":-7})"));
  EXPECT_FALSE(Fits(*grammar, R"({"name":"Ann"})"));
  EXPECT_FALSE(Fits(*grammar, R"({"name":"Ann","age":7,"more":1})"));
}

TEST_F(GrammarTest, WhatASchemaDoesNotNameIsLeftOutUnlessTheGrammarIsOpen) {
  const std::string schema = R"({"type": "object", "properties": {"a": {"type": "integer"}}})";
  const auto open = Compile(Kind::kJsonSchema, schema, true);
  const auto closed = Compile(Kind::kJsonSchema, schema);
  ASSERT_TRUE(open != nullptr && closed != nullptr);
  EXPECT_TRUE(Fits(*open, R"({"a":1,"b":[true,null]})"));
  EXPECT_FALSE(Fits(*open, R"({"a":"x"})"));
  EXPECT_FALSE(Fits(*closed, R"({"a":1,"b":[true,null]})"));
  EXPECT_TRUE(Fits(*closed, R"({"a":1})"));
  EXPECT_TRUE(Fits(*Compile(Kind::kJsonSchema, R"({"type": "object"})"), R"({"z":1})"));
}

TEST_F(GrammarTest, ARegexHoldsTheWholeAnswer) {
  const auto grammar = Compile(Kind::kRegex, R"(\d{4}-(0[1-9]|1[0-2])[ab]*)");
  ASSERT_NE(grammar, nullptr);
  EXPECT_TRUE(Fits(*grammar, "2026-11"));
  EXPECT_TRUE(Fits(*grammar, "2026-11abba"));
  EXPECT_FALSE(Fits(*grammar, "2026-13"));
  EXPECT_FALSE(Fits(*grammar, "x2026-11"));
}

// Each group here is one that the library by itself lets begin at its end.
TEST_F(GrammarTest, AGroupThatMayBeLeftOutIsLeftOutWhole) {
  for (const char* regex : {"a(cb*)?", "(b*c)?a", "a((cb+)?x)*", "a(cb*)??"}) {
    const auto grammar = Compile(Kind::kRegex, regex);
    const auto schema =
        Compile(Kind::kJsonSchema, StrCat(R"({"type":"string","pattern":"^)", regex, "$\"}"));
    ASSERT_TRUE(grammar != nullptr && schema != nullptr);
    for (const char* text : {"ab", "abb", "ba", "abx"}) {
      EXPECT_FALSE(Fits(*grammar, text)) << regex << " " << text;
      EXPECT_FALSE(Fits(*schema, StrCat("\"", text, "\""))) << regex << " " << text;
    }
    EXPECT_TRUE(Fits(*grammar, "a")) << regex;
  }
  EXPECT_TRUE(Fits(*Compile(Kind::kRegex, "a(cb*)?"), "acbb"));
}

TEST_F(GrammarTest, RulesAreThoseOfTwoDialects) {
  const auto grammar = Compile(Kind::kRules,
                               "# a sum\nroot ::= term (\"+\" term){1,2}\n"
                               "term ::= [0-9]+ | \"(\" root \")\"\n");
  ASSERT_NE(grammar, nullptr);
  EXPECT_TRUE(Fits(*grammar, "1+(22+3)"));
  EXPECT_TRUE(Fits(*grammar, "1+2+3"));
  EXPECT_FALSE(Fits(*grammar, "1+2+3+4"));
  EXPECT_FALSE(Fits(*grammar, "1"));
}

TEST_F(GrammarTest, AStructuralTagLeavesTheRestFree) {
  const auto grammar = Compile(Kind::kStructuralTag, R"({"type": "structural_tag", "format": {
      "type": "triggered_tags", "triggers": ["<f>"], "tags": [{"begin": "<f>", "content":
      {"type": "json_schema", "json_schema": {"type": "integer"}}, "end": "</f>"}]}})");
  ASSERT_NE(grammar, nullptr);
  EXPECT_TRUE(Fits(*grammar, "free text < f > and <f>12</f> more"));
  EXPECT_FALSE(Fits(*grammar, "and <f>x</f>"));
  EXPECT_FALSE(Fits(*grammar, "and <f>12</f"));
}

TEST_F(GrammarTest, TokensOfSeveralBytesAreAllowedWhereTheirBytesAre) {
  const auto grammar = Compile(Kind::kRegex, "(ab)+true");
  const auto walk = grammar->Walk(false);
  const TokenId ab = tokenizer_->Find("ab"), truth = tokenizer_->Find("true");
  std::vector<uint32_t> words((static_cast<size_t>(vocab_) + 31) / 32);
  walk->AllowTokens(words);
  EXPECT_TRUE(HasBit(words, ab));
  EXPECT_TRUE(HasBit(words, 'a'));
  EXPECT_FALSE(HasBit(words, truth));
  EXPECT_FALSE(walk->Go(truth));
  ASSERT_TRUE(walk->Go(ab));
  ASSERT_TRUE(walk->Go('a'));
  EXPECT_FALSE(walk->Go(truth));
  walk->Back(1);
  ASSERT_TRUE(walk->Go(truth));
  EXPECT_TRUE(walk->complete());
  std::fill(words.begin(), words.end(), 0);
  walk->AllowTokens(words);
  EXPECT_THAT(words, ::testing::Each(0u));  // ids that end an answer are not the walk's
  walk->Back(2);
  EXPECT_FALSE(walk->complete());
}

TEST_F(GrammarTest, AtTheBeginningOfATextTheSpaceThatEncodingPutsThereCounts) {
  const auto tokenizer = ByteTokenizer({" yes", "yes", " no"}, true);
  GrammarCompiler compiler(tokenizer, tokenizer->vocab_size(), {kEndOfAnswer});
  const auto grammar = *compiler.Compile({Kind::kRegex, "yes( yes)*"});
  const TokenId spaced = tokenizer->Find("\xC4\xA0yes");
  std::vector<uint32_t> words((static_cast<size_t>(tokenizer->vocab_size()) + 31) / 32);
  auto walk = grammar->Walk(true);
  walk->AllowTokens(words);
  EXPECT_TRUE(HasBit(words, spaced));
  EXPECT_TRUE(HasBit(words, tokenizer->Find("yes")));
  EXPECT_FALSE(HasBit(words, tokenizer->Find("\xC4\xA0no")));
  ASSERT_TRUE(walk->Go(spaced));
  EXPECT_TRUE(walk->complete());
  ASSERT_TRUE(walk->Go(spaced));  // here with its space
  EXPECT_TRUE(walk->complete());
  EXPECT_FALSE(grammar->Walk(false)->Go(spaced));
}

TEST_F(GrammarTest, WhatIsNoGrammarIsRefusedInOneSentence) {
  EXPECT_THAT(Refusal(Kind::kRegex, "(a"), HasSubstr("the regex cannot be compiled: "));
  EXPECT_THAT(Refusal(Kind::kRules, "root ::= other"),
              HasSubstr("the grammar cannot be compiled: "));
  EXPECT_THAT(Refusal(Kind::kStructuralTag, "{}"), HasSubstr("the structural tag has no format"));
  EXPECT_THAT(Refusal(Kind::kJsonSchema, "{"), HasSubstr("the JSON schema"));
  EXPECT_THAT(Refusal(Kind::kJsonSchema, R"({"type": "number", "multipleOf": 0.1})"),
              HasSubstr("multipleOf"));
  GrammarCompiler none(nullptr, 320, {2});
  EXPECT_EQ(none.Compile({Kind::kRegex, "a"}).status().field(), "grammar");
}

TEST_F(GrammarTest, WhatTakesTooLongOrTooMuchIsRefusedAndTheNextIsCompiled) {
  uint32_t state = 1;
  const auto draw_word = [&] {
    std::string word;
    for (int letter = 0; letter < 7; ++letter) {
      state = state * 1664525 + 1013904223;
      word += static_cast<char>('a' + (state >> 24) % 8);
    }
    return word;
  };
  std::vector<std::string> tokens;
  for (int i = 0; i < 20'000; ++i) tokens.push_back(draw_word());
  const auto tokenizer = ByteTokenizer(tokens);
  GrammarCompiler compiler(tokenizer, tokenizer->vocab_size(), {kEndOfAnswer});
  // Every rule meets every token, which takes 20 s of CPU time where this was written, and less
  // than 200 MiB: a machine ten times faster comes to the limit, too.
  std::string root = "root ::= r0", rules;
  for (int i = 0; i < 16'000; ++i) {
    const std::string word = draw_word();
    if (i > 0) root += StrCat(" | r", i);
    rules += StrCat("r", i, " ::= \"", word, "\" [^", word.substr(0, 1), "]* \"", word, "\"\n");
  }
  EXPECT_THAT(compiler.Compile({Kind::kRules, StrCat(root, "\n", rules)}).status().message(),
              HasSubstr("takes more than 2 s of CPU time to compile; send a smaller"));
  EXPECT_TRUE(compiler.Compile({Kind::kRegex, "a+"}).ok());
  std::string deep = "root ::= " + std::string(100'000, '(') + "\"a\"" + std::string(100'000, ')');
  Refusal(Kind::kRules, deep);
  const auto grammar = Compile(Kind::kRegex, "a+");
  ASSERT_NE(grammar, nullptr);
  EXPECT_TRUE(Fits(*grammar, "aa"));
}

TEST_F(GrammarTest, RulesWhoseTokensWouldTakeLongAreRefused) {
  std::string rules = "root ::= \"x\" r0\n";
  for (int i = 0; i < 400; ++i) {
    rules += StrCat("r", i, " ::= r", i + 1, " r", i + 1, " | \"\"\n");
  }
  rules += "r400 ::= [a-z]*\n";
  EXPECT_THAT(Refusal(Kind::kRules, rules),
              HasSubstr("rules that may be empty, and 200 is the most"));
}

TEST_F(GrammarTest, AGrammarIsCompiledOnce) {
  const Grammar grammar = {Kind::kRegex, "[a-z]+"};
  EXPECT_EQ(compiler_.Cached(grammar), nullptr);
  const auto first = *compiler_.Compile(grammar);
  EXPECT_EQ(compiler_.Cached(grammar), first);
  EXPECT_EQ(*compiler_.Compile(grammar), first);
  EXPECT_EQ(compiler_.Cached({Kind::kRules, "[a-z]+"}), nullptr);
  EXPECT_EQ(compiler_.Cached({Kind::kRegex, "[a-z]"}), nullptr);
}

// More threads than processes; each finds its own grammar.
TEST_F(GrammarTest, ManyThreadsShareTheProcesses) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      for (int j = 0; j < 4; ++j) {
        const std::string text = StrCat("x", i, j);
        const auto grammar = compiler_.Compile({Kind::kRegex, text});
        ASSERT_TRUE(grammar.ok()) << grammar.status().message();
        EXPECT_TRUE(Fits(**grammar, text));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Each byte may end any of the parts before it, so that a step takes ever longer.
TEST_F(GrammarTest, AnAnswerThatTakesTooLongToFollowFitsNothingMore) {
  const auto grammar = Compile(Kind::kRules, "root ::= root root root root | \"a\" | \"\"");
  ASSERT_NE(grammar, nullptr);
  const auto walk = grammar->Walk(false);
  int taken = 0;
  while (taken < 5000 && walk->Go('a')) ++taken;
  EXPECT_LT(taken, 5000);
  std::vector<uint32_t> words((static_cast<size_t>(vocab_) + 31) / 32);
  walk->AllowTokens(words);
  EXPECT_THAT(words, ::testing::Each(0u));
}

}  // namespace
}  // namespace sluice::text
