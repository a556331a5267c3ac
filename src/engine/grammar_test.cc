// Answers that are held to a grammar, through the whole engine over a tiny checkpoint, whose free
// answers are noise.
#include <regex>
#include <set>

#include "base/json.h"
#include "engine/engine_fixture.h"

namespace sluice::engine {
namespace {

using ::testing::HasSubstr;

const char* const kSchema = R"({"type": "object", "properties": {
    "colour": {"enum": ["red", "green", "blue"]},
    "count": {"type": "integer", "minimum": 0, "maximum": 99},
    "tags": {"type": "array", "items": {"type": "boolean"}, "maxItems": 2}},
    "required": ["colour", "count", "tags"], "additionalProperties": false})";

Request Fitting(Grammar::Kind kind, std::string text, double temperature = 0) {
  Request request = TinyRequest(kPrompt, 90);
  request.grammar = {kind, std::move(text)};
  request.sampling.temperature = temperature;
  return request;
}

void ExpectFitsSchema(const std::string& text) {
  const auto json = ParseJson(text, "the answer");
  ASSERT_TRUE(json.ok()) << text;
  EXPECT_EQ(json->size(), 3u) << text;
  EXPECT_TRUE((std::set<Json>{"red", "green", "blue"}.contains((*json)["colour"]))) << text;
  EXPECT_TRUE((*json)["count"].is_number_integer()) << text;
  EXPECT_LE((*json)["tags"].size(), 2u) << text;
}

TEST(GrammarAnswers, EveryAnswerFitsTheSchema) {
  const auto engine = OpenTiny(TinyOptions());
  std::set<std::string> seen;
  for (int seed = 0; seed < 20; ++seed) {
    Request request = Fitting(Grammar::Kind::kJsonSchema, kSchema, seed % 4 == 0 ? 0 : 2.0);
    request.sampling.seed = seed;
    request.n = 1 + seed % 3;
    if (seed % 5 > 1) request.logprobs = seed % 3;
    if (seed % 5 == 2) request.sampling.repetition_penalty = 1.5;
    const auto answer = Ask(*engine, request);
    ASSERT_TRUE(answer->error.ok()) << answer->error.message();
    ASSERT_EQ(answer->choices.size(), static_cast<size_t>(request.n));
    for (const auto& [index, choice] : answer->choices) {
      ExpectFitsSchema(choice.text);
      EXPECT_EQ(choice.finish, FinishReason::kStop);
      EXPECT_EQ(choice.logprobs.size(), request.logprobs ? choice.ids.size() : 0u);
      seen.insert(choice.text);
    }
  }
  EXPECT_GT(seen.size(), 5u);
  ExpectNothingLeft(*engine);
}

TEST(GrammarAnswers, ARegexAndRulesHoldToo) {
  const auto engine = OpenTiny(TinyOptions());
  for (int seed = 0; seed < 5; ++seed) {
    Request request = Fitting(Grammar::Kind::kRegex, "[0-9]{3}-[a-f]{2,4}", 1.5);
    request.sampling.seed = seed;
    const std::string code = Ask(*engine, request)->choices[0].text;
    EXPECT_TRUE(std::regex_match(code, std::regex("[0-9]{3}-[a-f]{2,4}"))) << code;
    request.grammar = {Grammar::Kind::kRules, "root ::= digit \"+\" digit\ndigit ::= [0-9]\n"};
    const std::string sum = Ask(*engine, request)->choices[0].text;
    EXPECT_TRUE(std::regex_match(sum, std::regex("[0-9]\\+[0-9]"))) << sum;
  }
}

TEST(GrammarAnswers, DraftsChangeNoAnswer) {
  EngineOptions options = TinyOptions();
  const auto plain = OpenTiny(options);
  options.speculate = "suffix";
  const auto drafting = OpenTiny(options);
  for (int seed = 0; seed < 6; ++seed) {
    Request request = Fitting(Grammar::Kind::kRegex, "(abc|abd|xyz){9}", seed == 0 ? 0 : 1.0);
    request.sampling.seed = seed;
    request.prediction = "abcabcabcabdxyzxyzabcabc";
    EXPECT_EQ(Ask(*drafting, request)->choices[0], Ask(*plain, request)->choices[0]);
  }
}

TEST(GrammarAnswers, WhatCannotBeCompiledEndsWithOneEventAndLeavesTheOthersAlone) {
  const auto engine = OpenTiny(TinyOptions());
  for (const auto& [kind, text] :
       {std::pair{Grammar::Kind::kRegex, "(a"},
        {Grammar::Kind::kRules, "root ::= x"},
        {Grammar::Kind::kJsonSchema, R"({"type": "array", "uniqueItems": true})"}}) {
    const auto answer = Ask(*engine, Fitting(kind, text));
    EXPECT_EQ(answer->error.code(), StatusCode::kInvalidArgument) << text;
    EXPECT_EQ(answer->error.field(), "grammar");
    EXPECT_EQ(answer->events, 1);
  }
  Request both = Fitting(Grammar::Kind::kRegex, "a");
  both.choice = {"a"};
  EXPECT_THAT(Ask(*engine, both)->error.message(), HasSubstr("send one of them"));
  EXPECT_THAT(Ask(*engine, Fitting(Grammar::Kind::kRegex, ""))->error.message(),
              HasSubstr("empty"));
  EXPECT_EQ(Ask(*engine, Fitting(Grammar::Kind::kRegex, "abc"))->choices[0].text, "abc");
  ExpectNothingLeft(*engine);
}

TEST(GrammarAnswers, MinTokensKeepsFromEndingOnlyWhatMayGoOn) {
  const auto engine = OpenTiny(TinyOptions());
  Request request = Fitting(Grammar::Kind::kRegex, "a*");
  request.sampling.logit_bias = {{2, 100.0}};
  EXPECT_EQ(Ask(*engine, request)->choices[0].text, "");
  request.min_tokens = 3;
  EXPECT_EQ(Ask(*engine, request)->choices[0].text, "aaa");
  request.grammar.text = "a{2}";
  EXPECT_EQ(Ask(*engine, request)->choices[0].text, "aa");
}

TEST(GrammarAnswers, ACancelledRequestIsNotHeldUpByItsGrammar) {
  const auto engine = OpenTiny(TinyOptions());
  auto [answer, sink] = Answer::Make();
  const auto id = engine->Submit(Fitting(Grammar::Kind::kRegex, "(a|b){50}"), sink);
  ASSERT_TRUE(id.ok());
  engine->Cancel(*id);
  answer->Wait();
  EXPECT_EQ(answer->lasts, 1);
}

}  // namespace
}  // namespace sluice::engine
