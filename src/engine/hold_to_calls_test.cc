// Answers that are held to calls, for each family: what its grammar lets through is what its parser
// reads as that call.
#include "engine/hold_to_calls.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "base/philox.h"
#include "text/grammar_fixture.h"
#include "text/output/output_fixture.h"

namespace sluice::engine {
namespace {

using ::testing::HasSubstr;

constexpr const char* kTools = R"([{"type": "function", "function": {"name": "get_weather",
  "parameters": {"type": "object", "properties": {"city": {"enum": ["Paris"]},
    "days": {"enum": [3]}}, "required": ["city", "days"]}}},
  {"type": "function", "function": {"name": "now"}}])";

class HoldToCallsTest : public ::testing::Test {
 protected:
  static Request Asking(bool required, std::string tool = {}, const std::string& tools = kTools) {
    Request request;
    ChatPrompt chat;
    chat.tools_json = tools;
    request.prompt = chat;
    request.parsing.tools = true;
    request.tool_choice = {.required = required, .tool = std::move(tool)};
    return request;
  }
  Result<bool> Hold(std::string_view family, Request* request) const {
    return HoldToCalls(*text::OutputFormat::Choose("", family, "none"), *tokenizer_, request);
  }
  std::shared_ptr<const text::CompiledGrammar> Compile(const Request& request) {
    auto compiled = compiler_.Compile(request.grammar);
    EXPECT_TRUE(compiled.ok()) << compiled.status().message() << request.grammar.text;
    return compiled.ok() ? *compiled : nullptr;
  }
  // An answer that fits: any of the bytes that may come, until it may end. White space that is not
  // needed is left out: a value between tags may have some around it.
  std::string Draw(const text::CompiledGrammar& grammar, uint32_t seed) const {
    const auto walk = grammar.Walk(false);
    std::string text;
    for (uint32_t i = 0; i < 2000 && !walk->complete(); ++i) {
      std::vector<uint32_t> words((static_cast<size_t>(vocab_) + 31) / 32);
      walk->AllowTokens(words);
      std::vector<text::TokenId> ids;
      for (text::TokenId id = 0; id < vocab_; ++id) {
        if (text::HasBit(words, id)) ids.push_back(id);
      }
      EXPECT_FALSE(ids.empty()) << text;
      const auto is_space = [](text::TokenId byte) {
        return byte == ' ' || (byte >= 9 && byte <= 13);
      };
      if (!std::all_of(ids.begin(), ids.end(), is_space)) std::erase_if(ids, is_space);
      if (ids.empty()) break;
      const text::TokenId id = ids[Philox(seed, {i, 0, 0, 0})[0] % ids.size()];
      EXPECT_TRUE(walk->Go(id));
      text += tokenizer_->PieceBytes(id, true);
    }
    EXPECT_TRUE(walk->complete()) << text;
    return text;
  }

  const std::shared_ptr<const text::Tokenizer> tokenizer_ = text::ByteTokenizer();
  const int vocab_ = tokenizer_->vocab_size();
  text::GrammarCompiler compiler_{tokenizer_, vocab_, {text::kEndOfAnswer}};
};

TEST_F(HoldToCallsTest, WhatTheGrammarOfAFamilyLetsThroughItsParserReads) {
  int held = 0;
  for (const text::CallFamily& family : text::CallFamilies()) {
    SCOPED_TRACE(family.name);
    Request request = Asking(true, "get_weather");
    const auto holds = Hold(family.name, &request);
    EXPECT_EQ(holds.ok(), family.shape != nullptr);
    if (!holds.ok()) {
      EXPECT_THAT(holds.status().message(), HasSubstr("cannot be held to calls"));
      continue;
    }
    ++held;
    const auto grammar = Compile(request);
    ASSERT_NE(grammar, nullptr);
    const text::Parsing parsing(family.name, "none", kTools);
    for (uint32_t seed = 0; seed < 3; ++seed) {
      const std::string text = Draw(*grammar, seed);
      const text::Taken taken = parsing.Take(std::vector<std::string_view>{text});
      EXPECT_EQ(taken.text, "") << text;
      ASSERT_EQ(taken.calls.size(), 1u) << text;
      EXPECT_EQ(taken.calls[0].first, "get_weather") << text;
      EXPECT_EQ(Json::parse(taken.calls[0].second, nullptr, false),
                (Json{{"city", "Paris"}, {"days", 3}}))
          << text;
    }
  }
  EXPECT_EQ(held, 19);
}

TEST_F(HoldToCallsTest, ARequiredCallIsOfAnyToolAndTheirNumberIsFreeUnlessOneIsWanted) {
  Request request = Asking(true);
  ASSERT_TRUE(*Hold("hermes", &request));
  const auto any = Compile(request);
  request = Asking(true);
  request.parsing.one_call = true;
  ASSERT_TRUE(*Hold("hermes", &request));
  const auto one = Compile(request);
  ASSERT_TRUE(any != nullptr && one != nullptr);
  const std::string now = "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>";
  const std::string weather =
      "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\", \"days\": "
      "3}}\n"
      "</tool_call>";
  for (const auto& grammar : {any, one}) {
    EXPECT_TRUE(text::Fits(*grammar, vocab_, now));
    EXPECT_TRUE(text::Fits(*grammar, vocab_, weather));
    EXPECT_FALSE(text::Fits(*grammar, vocab_, "It is noon."));
    EXPECT_FALSE(text::Fits(*grammar, vocab_, "<tool_call>\n{\"name\": \"then\""));
    EXPECT_EQ(text::Fits(*grammar, vocab_, now + "\n" + weather), grammar == any);
  }
}

TEST_F(HoldToCallsTest, WithAStrictToolAnAnswerIsTextOrCallsThatFit) {
  const std::string tools =
      R"([{"type": "function", "function": {"name": "f", "strict": true, "parameters": {
        "type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"],
        "additionalProperties": false}}}])";
  for (const auto& [family, begin] :
       {std::pair{"hermes", "<tool_call>\n{\"name\": \"f\", \"arguments\": "},
        {"llama3_json", "{\"name\": \"f\", \"parameters\": "}}) {
    SCOPED_TRACE(family);
    Request request = Asking(false, "", tools);
    ASSERT_TRUE(*Hold(family, &request));
    const auto grammar = Compile(request);
    ASSERT_NE(grammar, nullptr);
    const std::string end = std::string(family) == "hermes" ? "}\n</tool_call>" : "}";
    EXPECT_TRUE(text::Fits(*grammar, vocab_, "It is <b>noon</b>."));
    EXPECT_TRUE(text::Fits(*grammar, vocab_, begin + std::string("{\"a\": 5}") + end));
    EXPECT_FALSE(text::Fits(*grammar, vocab_, begin + std::string("{\"a\": \"5\"}") + end));
    EXPECT_FALSE(text::Fits(*grammar, vocab_, begin + std::string("{}") + end));
  }
}

TEST_F(HoldToCallsTest, NothingIsHeldWhereNothingAsksForIt) {
  Request request = Asking(false);
  EXPECT_FALSE(*Hold("hermes", &request));
  EXPECT_EQ(request.grammar.kind, Grammar::Kind::kNone);
  EXPECT_FALSE(*Hold("harmony", &request));
}

TEST_F(HoldToCallsTest, WhatCannotBeHeldToIsNamed) {
  const auto refusal = [&](Request request, const char* family = "hermes") {
    const auto held = Hold(family, &request);
    EXPECT_EQ(held.status().code(), StatusCode::kInvalidArgument);
    return held.status().message();
  };
  EXPECT_THAT(refusal(Asking(true, "then")), HasSubstr("not among tools"));
  EXPECT_THAT(refusal(Asking(true, "", "")), HasSubstr("there are no tools"));
  EXPECT_THAT(refusal(Asking(true), "harmony"), HasSubstr("--tool-parser"));
  EXPECT_THAT(refusal(Asking(true), "none"), HasSubstr("--tool-parser"));
  EXPECT_THAT(refusal(Asking(true, "", R"([{"function": {"name": "a\"b"}}])")),
              HasSubstr("has a name"));
  Request both = Asking(true);
  both.choice = {"yes"};
  EXPECT_THAT(refusal(both), HasSubstr("send one of them"));
  const std::string unheld = R"("parameters": {"type": "array", "contains": {}}}}])";
  EXPECT_THAT(
      refusal(Asking(false, "", R"([{"function": {"name": "f", "strict": true, )" + unheld)),
      HasSubstr("contains"));
  // A tool that is not strict may then have any arguments.
  Request loose = Asking(true, "", R"([{"function": {"name": "f", )" + unheld);
  EXPECT_TRUE(*Hold("hermes", &loose));
  EXPECT_THAT(loose.grammar.text, HasSubstr(R"("json_schema":{"type":"object"})"));
}

}  // namespace
}  // namespace sluice::engine
