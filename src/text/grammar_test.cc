#include "text/grammar.h"

#include <gmock/gmock.h>

#include <atomic>
#include <thread>

#include "base/json.h"
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
    auto compiled = text::Compile({kind, std::move(text), open}, &compiler_);
    EXPECT_TRUE(compiled.ok()) << compiled.status().message();
    return compiled.ok() ? *compiled : nullptr;
  }
  std::string Refusal(Kind kind, std::string text) {
    const auto compiled = text::Compile({kind, std::move(text)}, &compiler_);
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

TEST_F(GrammarTest, ListedNumbersAreWrittenShortAndWithoutLoss) {
  for (const char* value :
       {"0.1", "-2.5", "1e-7", "[0.1,{\"a\":[1.1]}]", "9223372036854775807", "9223372036854775808",
        "18446744073709551615", "-9223372036854775808", "9007199254740993", "1e300", "3"}) {
    const auto only = Compile(Kind::kJsonSchema, StrCat("{\"const\":", value, "}"));
    const auto of =
        Compile(Kind::kJsonSchema,
                StrCat(R"({"type":"object","properties":{"n":{"enum":["0.1",)", value, "]}}}"));
    ASSERT_TRUE(only != nullptr && of != nullptr);
    // As JSON writes it here, which for a number below 1e-4 has two digits behind its "e".
    const std::string text = DumpJson(OrderedJson::parse(value));
    EXPECT_TRUE(Fits(*only, text)) << text;
    EXPECT_TRUE(Fits(*of, StrCat("{\"n\":", text, "}"))) << text;
    EXPECT_TRUE(Fits(*of, R"({"n":"0.1"})"));
  }
  const auto whole = Compile(Kind::kJsonSchema, R"({"const": 2.0})");
  ASSERT_NE(whole, nullptr);
  EXPECT_TRUE(Fits(*whole, "2"));
}

TEST_F(GrammarTest, AnObjectHasAsManyDifferentPropertiesAsItsSchemaSays) {
  const std::vector<std::string> names = {"a", "b", "c"};
  for (const std::string required : {"[]", R"(["b"])", R"(["a", "c"])"}) {
    for (const auto& [least, most] : {std::pair{1, 2}, {1, 9}, {2, 2}, {2, 9}, {3, 3}, {0, 1}}) {
      if (required.size() > 6 && most < 2) continue;  // permits nothing
      const std::string schema = StrCat(
          R"({"type": "object", "properties": {"a": {"type": "null"}, "b": {"type": "null"},
              "c": {"type": "null"}}, "additionalProperties": false, "required": )",
          required, ", \"minProperties\": ", least, ", \"maxProperties\": ", most, "}");
      SCOPED_TRACE(schema);
      const auto grammar = Compile(Kind::kJsonSchema, schema);
      ASSERT_NE(grammar, nullptr);
      for (int some = 0; some < 8; ++some) {
        std::string text;
        int count = 0;
        bool fits = true;
        for (size_t i = 0; i < names.size(); ++i) {
          const bool has = (some >> i & 1) != 0;
          if (has) text += StrCat(count++ > 0 ? "," : "", "\"", names[i], "\":null");
          fits = fits && (has || required.find(names[i]) == std::string::npos);
        }
        fits = fits && count >= least && count <= most;
        EXPECT_EQ(Fits(*grammar, StrCat("{", text, "}")), fits) << text;
      }
    }
  }
  // The names are those that propertyNames lists, and none comes twice.
  const auto listed = Compile(Kind::kJsonSchema, R"({"type": "object", "minProperties": 2,
      "propertyNames": {"enum": ["a", "b", "c"]}, "additionalProperties": {"type": "null"}})");
  ASSERT_NE(listed, nullptr);
  EXPECT_TRUE(Fits(*listed, R"({"a":null,"c":null})"));
  EXPECT_FALSE(Fits(*listed, R"({"a":null})"));
  EXPECT_FALSE(Fits(*listed, R"({"a":null,"a":null})"));
  const auto one = Compile(Kind::kJsonSchema, R"({"type": "object", "minProperties": 1})");
  ASSERT_NE(one, nullptr);
  EXPECT_TRUE(Fits(*one, R"({"x":1})"));
  EXPECT_FALSE(Fits(*one, "{}"));
}

// What the library's own form of a schema cannot say.
TEST_F(GrammarTest, NumbersAndArraysOfSchemasThatSayMoreAreHeldTo) {
  struct Case {
    const char* schema;
    std::vector<const char*> fits, breaks;
  };
  const Case cases[] = {
      {R"({"type": "number", "multipleOf": 0.25})",
       {"0", "0.5", "0.50", "-12.75", "3", "10.25", "0.00"},
       {"0.3", "0.251", "01", "1.", "0.125", "2e1", ".5"}},
      {R"({"type": "integer", "multipleOf": 7, "minimum": 0})",
       {"0", "7", "14", "70", "49000"},
       {"-7", "8", "07", "7.0"}},
      {R"({"type": "number", "multipleOf": 0.01, "minimum": 0})",
       {"0.01", "99.9", "5"},
       {"-1", "0.001"}},
      {R"({"type": "number", "not": {"type": "integer"}})",
       {"0.5", "-1.10", "12.001"},
       {"1", "1.0", "1.5e1"}},
      {R"({"type": "object", "properties": {"a1": {"type": "string"}},
           "patternProperties": {"^a": {"type": ["string", "integer"]}, "1$": {"type": ["integer", "null"]}},
           "additionalProperties": {"type": "boolean"}})",
       {"{}", R"({"a":"x","b1":null,"c":true,"ab1":3})", R"({"b":false})", R"({"xa":true})"},
       {R"({"a1":"x"})", R"({"ab1":"x"})", R"({"a":null})", R"({"c":1})", R"({"b1":true})"}},
      {R"({"type": "object", "patternProperties": {"[0-9]{2,}": {"type": "null"}}})",
       {R"({"1":true,"12":null,"a123b":null,"a1b2":[]})"},
       {R"({"12":1})", R"({"a123b":1})"}},
      {R"({"type": "array", "contains": {"type": "integer", "minimum": 5}})",
       {"[5]", "[1,7]", R"(["a",9,[],1])", "[6,7,8]"},
       {"[]", "[1]", R"(["a",4])", "[5,]", "[1 ,7]"}},
      {R"({"type": "array", "items": {"type": "string"}, "contains": {"const": "x"}, "minContains": 2,
           "maxContains": 3})",
       {R"(["x","x"])", R"(["a","x","b","x","c"])", R"(["x","x","x"])"},
       {"[]", R"(["x"])", R"(["x","x","x","x"])", R"(["x","x",1])"}},
      {R"({"type": "array", "contains": {"type": "string", "pattern": "^a"}})",
       {R"(["a"])", R"([1,"ab","b"])"},
       {"[]", R"(["b"])", "[1]"}},
      {R"({"type": "array", "contains": {"type": "null"}, "minContains": 0, "maxContains": 1})",
       {"[]", "[1]", "[null]", "[1,null,2]"},
       {"[null,null]"}},
      {R"({"type": "object", "properties": {"n": {"type": "number", "multipleOf": 0.5},
           "s": {"type": "string"}, "e": {"enum": ["a\"/", null]}}, "additionalProperties": false})",
       {R"({"n":1.5,"s":"x\n","e":"a\"/"})", R"({"e":null})"},
       {R"({"n":1.25})", R"({"s":"x","n":1})"}}};
  for (const Case& held : cases) {
    const auto grammar = Compile(Kind::kJsonSchema, held.schema, /*open=*/true);
    ASSERT_NE(grammar, nullptr) << held.schema;
    for (const char* text : held.fits) EXPECT_TRUE(Fits(*grammar, text)) << held.schema << text;
    for (const char* text : held.breaks) EXPECT_FALSE(Fits(*grammar, text)) << held.schema << text;
  }
}

// By bytes, as a model without tokens for most characters writes them.
TEST_F(GrammarTest, NothingButUtf8Fits) {
  const std::string quoted[] = {R"({"type": "string"})", R"({"type": "string", "maxLength": 1})",
                                R"({"type": "string", "pattern": "^.$"})",
                                R"({"type": "string", "pattern": "^[^a]$"})",
                                R"({"type": "string", "not": {"enum": ["a", "b"]}})"};
  struct Case {
    Kind kind;
    std::string text;
    const char* quote;
  };
  std::vector<Case> cases = {{Kind::kRegex, ".", ""},
                             {Kind::kRegex, "[^a]", ""},
                             {Kind::kRegex, "\\W", ""},
                             {Kind::kRules, "root ::= [^a]", ""}};
  for (const std::string& schema : quoted) cases.push_back({Kind::kJsonSchema, schema, "\""});
  for (const Case& held : cases) {
    SCOPED_TRACE(held.text);
    const auto grammar = Compile(held.kind, held.text);
    ASSERT_NE(grammar, nullptr);
    for (const char* character : {"\xC3\x97", "\xE0\xA5\xA4", "\xE2\x82\xAC", "\xED\x9F\xBB",
                                  "\xEE\x80\x80", "\xF0\x9F\x98\x80", "\xF4\x8F\xBF\xBD"}) {
      EXPECT_TRUE(Fits(*grammar, StrCat(held.quote, character, held.quote))) << character;
    }
    for (const char* none : {"\x80", "\xC0\x80", "\xC1\xBF", "\xE0\x80\x80", "\xE0\x9F\xBF",
                             "\xED\xA0\x80", "\xED\xBF\xBF", "\xF0\x80\x80\x80", "\xF0\x8F\xBF\xBF",
                             "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF"}) {
      EXPECT_FALSE(Fits(*grammar, StrCat(held.quote, none, held.quote)));
    }
  }
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

// The library by itself reads \x41bc as U+41BC, a space of its own choice, and a dot that is a
// line's end.
TEST_F(GrammarTest, EscapesAndClassesAreThoseOfEcma) {
  const std::string nbsp = "\xC2\xA0", quad = "\xE2\x80\x81";
  EXPECT_TRUE(Fits(*Compile(Kind::kRegex, R"(\x41bc)"), "Abc"));
  EXPECT_TRUE(Fits(*Compile(Kind::kRegex, R"([\x01bc]+)"),
                   "\x01"
                   "bc"));
  EXPECT_FALSE(Fits(*Compile(Kind::kRegex, "."), "\n"));
  EXPECT_TRUE(Fits(*Compile(Kind::kRegex, R"([\^-a]b)"), "^b"));
  const auto space = Compile(Kind::kRegex, R"(\s)"), other = Compile(Kind::kRegex, R"(\S)");
  const auto spaces = Compile(Kind::kJsonSchema, R"({"type":"string","pattern":"^\\s+$"})");
  ASSERT_TRUE(space != nullptr && other != nullptr && spaces != nullptr);
  for (const std::string& text : {std::string(" "), nbsp, quad, std::string("\xEF\xBB\xBF")}) {
    EXPECT_TRUE(Fits(*space, text));
    EXPECT_FALSE(Fits(*other, text));
    EXPECT_TRUE(Fits(*spaces, StrCat("\"", text, "\"")));
  }
  EXPECT_FALSE(Fits(*spaces, "\"\t\""));
  EXPECT_FALSE(Fits(*space, "x"));
  EXPECT_TRUE(Fits(*other, "x"));
  // Every printable character of ASCII stands for itself, alone and in a class.
  for (char c = 0x20; c < 0x7f; ++c) {
    const std::string escape = StrCat("\\u00", c < 0x30 ? "2" : std::string(1, '0' + c / 16),
                                      std::string(1, "0123456789abcdef"[c % 16]));
    for (const std::string& regex : {escape, StrCat("[", escape, "\\u0001]")}) {
      const auto grammar = Compile(Kind::kRegex, regex);
      ASSERT_NE(grammar, nullptr);
      EXPECT_TRUE(Fits(*grammar, std::string(1, c))) << regex;
      EXPECT_FALSE(Fits(*grammar, std::string(1, c ^ 1))) << regex;
    }
  }
}

TEST_F(GrammarTest, ARegexThatIsRefusedIsNamedByItsKeyword) {
  for (const char* regex : {R"(^\\cC$)", R"(^a\\u0003b$)", R"(^[\\x00-\\x1f]$)", R"(\\p{L})",
                            R"(a\\b)", R"((a)\\1)", "a{2,1}"}) {
    EXPECT_THAT(Refusal(Kind::kJsonSchema, StrCat(R"({"type":"string","pattern":")", regex, "\"}")),
                HasSubstr(R"(the keyword "pattern" of the JSON schema at "#" is not supported)"));
    EXPECT_THAT(Refusal(Kind::kJsonSchema,
                        StrCat(R"({"type":"object","propertyNames":{"pattern":")", regex, "\"}}")),
                HasSubstr(R"(the keyword "pattern" of the JSON schema at "#/propertyNames")"));
  }
  EXPECT_THAT(Refusal(Kind::kStructuralTag, R"({"type":"structural_tag","format":
                      {"type":"regex","pattern":"\\p{L}"}})"),
              HasSubstr("a class of Unicode"));
  EXPECT_TRUE(Fits(*Compile(Kind::kStructuralTag, R"({"type":"structural_tag","format":
                            {"type":"regex","pattern":"\\x41bc"}})"),
                   "Abc"));
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
  const auto grammar = *text::Compile({Kind::kRegex, "yes( yes)*"}, &compiler);
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
  EXPECT_THAT(Refusal(Kind::kRegex, "(a"), HasSubstr("the regex \"(a\" has a ( that no ) closes"));
  EXPECT_THAT(Refusal(Kind::kRules, "root ::= other"),
              HasSubstr("the grammar cannot be compiled: "));
  EXPECT_THAT(Refusal(Kind::kStructuralTag, "{}"), HasSubstr("the structural tag has no format"));
  EXPECT_THAT(Refusal(Kind::kJsonSchema, "{"), HasSubstr("the JSON schema"));
  EXPECT_THAT(Refusal(Kind::kJsonSchema, R"({"type": "number", "multipleOf": 1e-7})"),
              HasSubstr("multipleOf"));
  GrammarCompiler none(nullptr, 320, {2});
  EXPECT_EQ(text::Compile({Kind::kRegex, "a"}, &none).status().field(), "grammar");
}

// Over a vocabulary of 20,000 words.
class SlowGrammarTest : public ::testing::Test {
 protected:
  std::string DrawWord() {
    std::string word;
    for (int letter = 0; letter < 7; ++letter) {
      state_ = state_ * 1664525 + 1013904223;
      word += static_cast<char>('a' + (state_ >> 24) % 8);
    }
    return word;
  }
  std::vector<std::string> DrawWords() {
    std::vector<std::string> words;
    for (int i = 0; i < 20'000; ++i) words.push_back(DrawWord());
    return words;
  }
  // Every rule meets every token, which takes 20 s of CPU time where this was written, and less
  // than 200 MiB: a machine ten times faster comes to the limit, too.
  std::string SlowRules() {
    std::string root = "root ::= r0", rules;
    for (int i = 0; i < 16'000; ++i) {
      const std::string word = DrawWord();
      if (i > 0) root += StrCat(" | r", i);
      rules += StrCat("r", i, " ::= \"", word, "\" [^", word.substr(0, 1), "]* \"", word, "\"\n");
    }
    return StrCat(root, "\n", rules);
  }

  uint32_t state_ = 1;
  const std::shared_ptr<const Tokenizer> tokenizer_ = ByteTokenizer(DrawWords());
  GrammarCompiler compiler_{tokenizer_, tokenizer_->vocab_size(), {kEndOfAnswer}};
};

TEST_F(SlowGrammarTest, WhatTakesTooLongIsRefusedAndTheNextIsCompiled) {
  const Grammar slow = {Kind::kRules, SlowRules()};
  for (int times = 0; times < 2; ++times) {
    const auto compiled = text::Compile(slow, &compiler_);
    EXPECT_EQ(compiled.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(compiled.status().message(),
                HasSubstr("takes more than 2 s of CPU time to compile; send a smaller"));
    // What is known to take too long is not tried once more.
    EXPECT_EQ(compiler_.CompileShort(slow).status().code(), StatusCode::kInvalidArgument);
  }
  EXPECT_TRUE(text::Compile({Kind::kRegex, "a+"}, &compiler_).ok());
}

// A long one ends before its limit only by being refused, so that the short one that comes behind
// it has to be compiled beside it.
TEST_F(SlowGrammarTest, NothingShortWaitsForWhatTakesLong) {
  const Grammar slow = {Kind::kRules, SlowRules()};
  ASSERT_EQ(compiler_.CompileShort(slow).status().code(), StatusCode::kDeadlineExceeded);
  std::vector<std::thread> threads;
  std::atomic<int> ended = 0;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&, i] {
      compiler_.CompileLong({Kind::kRules, StrCat(slow.text, "# ", i)}).ok();
      ++ended;
    });
  }
  for (int i = 0; i < 3; ++i)
    EXPECT_TRUE(text::Compile({Kind::kRegex, StrCat("a", i)}, &compiler_).ok());
  EXPECT_LT(ended, 3);
  for (std::thread& thread : threads) thread.join();
}

TEST_F(GrammarTest, WhatIsTooDeepIsRefusedAndTheNextIsCompiled) {
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
  const auto first = *text::Compile(grammar, &compiler_);
  EXPECT_EQ(compiler_.Cached(grammar), first);
  EXPECT_EQ(*text::Compile(grammar, &compiler_), first);
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
        const auto grammar = text::Compile({Kind::kRegex, text}, &compiler_);
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
