// What was sent to other servers to exhaust or crash them, and what is like it: each ends with a
// sentence, or is compiled within the compiling program's own limits, and the next one is compiled.
#include <gmock/gmock.h>

#include "base/str_cat.h"
#include "text/grammar.h"
#include "text/grammar_fixture.h"

namespace sluice::text {
namespace {

using ::testing::HasSubstr;
using Kind = Grammar::Kind;

std::string Repeated(std::string_view text, int times) {
  std::string repeated;
  for (int i = 0; i < times; ++i) repeated += text;
  return repeated;
}

std::string Nested(std::string_view open, std::string_view middle, std::string_view close,
                   int times) {
  return StrCat(Repeated(open, times), middle, Repeated(close, times));
}

class GrammarLimitsTest : public ::testing::Test {
 protected:
  // A sentence says why not.
  std::string Refused(Kind kind, std::string text) {
    const auto compiled = text::Compile({kind, std::move(text)}, &compiler_);
    EXPECT_FALSE(compiled.ok());
    ExpectSentence(compiled.status());
    ExpectTheNextIsCompiled();
    return compiled.status().message();
  }
  // Or an answer can be followed, or ends.
  void RefusedOrFollowed(Kind kind, const std::string& text, std::string_view answer) {
    SCOPED_TRACE(text.substr(0, 60));
    const auto compiled = text::Compile({kind, text}, &compiler_);
    if (compiled.ok()) {
      const auto walk = (*compiled)->Walk(false);
      for (const char byte : answer) {
        std::vector<uint32_t> words((static_cast<size_t>(vocab_) + 31) / 32);
        walk->AllowTokens(words);
        const TokenId id = static_cast<uint8_t>(byte);
        if (!HasBit(words, id) || !walk->Go(id)) break;
      }
    } else {
      ExpectSentence(compiled.status());
    }
    ExpectTheNextIsCompiled();
  }

 private:
  static void ExpectSentence(const Status& status) {
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status.message();
    EXPECT_EQ(status.field(), "grammar");
    EXPECT_GT(status.message().size(), 10u);
    EXPECT_LT(status.message().size(), 600u);
  }
  void ExpectTheNextIsCompiled() {
    const auto next = text::Compile({Kind::kRegex, StrCat("next", ++next_, "b*")}, &compiler_);
    ASSERT_TRUE(next.ok()) << next.status().message();
    EXPECT_TRUE(Fits(**next, vocab_, StrCat("next", next_, "bb")));
  }

  const std::shared_ptr<const Tokenizer> tokenizer_ = ByteTokenizer({"ab", "\":", "aa"});
  const int vocab_ = tokenizer_->vocab_size();
  GrammarCompiler compiler_{tokenizer_, vocab_, {kEndOfAnswer}};
  int next_ = 0;
};

// CVE-2026-25048 and llama.cpp's bounds of depth: the stack of whoever reads it.
TEST_F(GrammarLimitsTest, DeepNestingIsRefused) {
  EXPECT_THAT(Refused(Kind::kRegex, Nested("(", "a", ")", 100'000)), HasSubstr("the regex"));
  EXPECT_THAT(Refused(Kind::kRules, "root ::= " + Nested("(", "\"a\"", ")", 30'000)),
              HasSubstr("the grammar"));
  EXPECT_THAT(Refused(Kind::kRules, "root ::= " + Repeated("(", 30'000)), HasSubstr("the grammar"));
  EXPECT_THAT(Refused(Kind::kJsonSchema, Nested(R"({"items":)", "{}", "}", 10'000)),
              HasSubstr("the JSON schema"));
  EXPECT_THAT(Refused(Kind::kJsonSchema, Nested(R"({"allOf":[)", "{}", "]}", 100)),
              HasSubstr("the JSON schema"));
  EXPECT_THAT(Refused(Kind::kJsonSchema,
                      R"({"type":"string","pattern":")" + Nested("(", "a", ")", 50'000) + "\"}"),
              HasSubstr("the JSON schema"));
  EXPECT_THAT(Refused(Kind::kStructuralTag,
                      R"({"type":"structural_tag","format":)" +
                          Nested(R"({"type":"sequence","elements":[)",
                                 R"({"type":"const_string","value":"a"})", "]}", 1000) +
                          "}"),
              HasSubstr("the structural tag"));
}

// CVE-2025-48943 and ReDoS: here a regex is an automaton, and an answer is read once.
TEST_F(GrammarLimitsTest, RegexesThatAreExponentialElsewhereEnd) {
  const std::string answer = Repeated("a", 200) + "!";
  for (const char* regex :
       {"(a+)+!", "(a|a)*b", "(a|aa)+!", "(a*)*(a*)*!", "(.*a){25}", "(a|b)*a(a|b){30}",
        "((a{0,100}){0,100}){0,100}", "(((a{9}){9}){9}){9}", "((a?){30})a{30}", "(.+.+)+=.+",
        "a{99999}", "[a-z]{1,100}[a-z]{1,100}[a-z]{1,100}!"}) {
    RefusedOrFollowed(Kind::kRegex, regex, answer);
    RefusedOrFollowed(Kind::kJsonSchema, StrCat(R"({"type":"string","pattern":")", regex, "\"}"),
                      "\"" + answer);
  }
  for (const char* regex :
       {"(a", "a)", "[a", "a{2", "*a", "a{3,2}", "(?<=a)b", "\\", "(?P<n", "[z-a]"}) {
    RefusedOrFollowed(Kind::kRegex, regex, "a");
  }
  EXPECT_THAT(Refused(Kind::kRegex, "(a"), HasSubstr("the regex"));
  EXPECT_THAT(Refused(Kind::kRegex, "a{100001}"), HasSubstr("more than 100000 times"));
}

TEST_F(GrammarLimitsTest, HugeEnumsAndCountsEnd) {
  std::string values = "\"v0\"";
  for (int i = 1; i < 16'000; ++i) values += StrCat(",\"v", i, "\"");
  RefusedOrFollowed(Kind::kJsonSchema, StrCat(R"({"enum":[)", values, "]}"), "\"v15999\"");
  EXPECT_THAT(Refused(Kind::kJsonSchema, StrCat(R"({"enum":[)", values, ",", values, "]}")),
              HasSubstr("the JSON schema"));
  RefusedOrFollowed(Kind::kJsonSchema, StrCat(R"({"const":")", Repeated("a", 200'000), "\"}"),
                    "\"aaaa");
  std::string properties = R"("p0":{})", alternatives = R"({"const":0})";
  for (int i = 1; i < 3000; ++i) {
    properties += StrCat(",\"p", i, "\":{}");
    alternatives += StrCat(R"(,{"const":)", i, "}");
  }
  RefusedOrFollowed(Kind::kJsonSchema,
                    StrCat(R"({"type":"object","properties":{)", properties, "}}"), "{\"p0\":1");
  for (const char* keyword : {"anyOf", "oneOf"}) {
    EXPECT_THAT(Refused(Kind::kJsonSchema, StrCat("{\"", keyword, "\":[", alternatives, "]}")),
                HasSubstr("more than 64 alternatives"));
  }
  // Value by value these would be 64 million comparisons.
  std::string even = "0", odd = "1";
  for (int i = 2; i < 16'000; ++i) (i % 2 == 0 ? even : odd) += StrCat(",", i);
  EXPECT_THAT(Refused(Kind::kJsonSchema,
                      StrCat(R"({"allOf":[{"enum":[)", even, R"(]},{"enum":[)", odd, "]}]}")),
              HasSubstr("permits no value"));
  for (const char* schema :
       {R"({"type":"string","maxLength":1000000000})", R"({"type":"string","minLength":1000000})",
        R"({"type":"string","minLength":255,"maxLength":255})",
        R"({"type":"array","minItems":1000000000})", R"({"type":"array","maxItems":1000000})",
        R"({"type":"object","minProperties":1000000})", R"({"type":"integer","multipleOf":1000})",
        R"({"type":"integer","minimum":-9007199254740992,"maximum":9007199254740992})"}) {
    RefusedOrFollowed(Kind::kJsonSchema, schema, "\"aaaa");
  }
}

// CVE-2025-48942 and -48944: what is no schema, from response_format or a tool.
TEST_F(GrammarLimitsTest, WhatIsNoSchemaIsRefused) {
  for (const char* schema :
       {R"({"type":"something"})", R"({"type":7})", R"({"properties":3})", R"({"pattern":7})",
        R"({"type":"string","pattern":"("})", R"({"type":"string","pattern":"["})",
        R"({"enum":"a"})", R"({"required":[1]})", R"({"$ref":7})", R"({"$ref":"#"})",
        R"({"items":7})", R"({"anyOf":{}})", R"({"maxLength":-1})", "7", "[]", "null", "\"a\""}) {
    SCOPED_TRACE(schema);
    Refused(Kind::kJsonSchema, schema);
  }
}

// CVE-2025-57809: rules that lead back to themselves.
TEST_F(GrammarLimitsTest, RulesThatLeadBackToThemselvesEnd) {
  const std::string answer = Repeated("a", 100);
  for (const char* rules :
       {"root ::= root", "root ::= root root | \"a\"", "root ::= a\na ::= b\nb ::= a",
        "root ::= root \"a\" | \"\"", "root ::= (root | \"\") (root | \"\") \"a\"",
        "root ::= (((\"a\"*)*)*)*", "root ::= (\"a\" | \"\"){1000}", "root ::= other",
        "root ::= \"a\"{1000000000}", "other ::= \"a\"", ""}) {
    RefusedOrFollowed(Kind::kRules, rules, answer);
  }
}

// CVE-2025-29770 and -32381: what is kept of many grammars has a limit, and none is on a disk.
TEST(GrammarCacheTest, TheOldestAreForgotten) {
  const auto tokenizer = ByteTokenizer();
  GrammarCompiler compiler(tokenizer, tokenizer->vocab_size(), {kEndOfAnswer});
  const std::string comment = " # " + std::string(250 << 10, 'x');
  const auto grammar = [&](size_t i) {
    return Grammar{Kind::kRules, StrCat("root ::= \"a", i, "\"", comment)};
  };
  const size_t last = GrammarCompiler::kCacheBytes / comment.size() + 1;
  for (size_t i = 0; i <= last; ++i) ASSERT_TRUE(text::Compile(grammar(i), &compiler).ok());
  EXPECT_EQ(compiler.Cached(grammar(0)), nullptr);
  EXPECT_NE(compiler.Cached(grammar(last)), nullptr);
}

}  // namespace
}  // namespace sluice::text
