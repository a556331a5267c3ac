// /v1/decisions: what is asked of the engine, and probabilities from the log-probs it gives.
#include "server/openai/decisions_api.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/str_cat.h"
#include "server/openapi/openapi.h"
#include "server/routes_fixture.h"

namespace sluice::server {
namespace {

const ModelFacts kDecider{"tiny", 1000};

class DecisionsTest : public RoutesTest {
 protected:
  void SetUp() override { engine_.max_model_len = 4096; }
  // Answers a request: each of the last two tokens of its prompt has that log-prob.
  void Score(size_t index, double logprob) {
    TextDelta delta;
    delta.prompt_tokens.resize(10);
    for (TokenInfo& token : delta.prompt_tokens) token.logprob = -100;
    delta.prompt_tokens[0].logprob.reset();
    for (size_t i = 8; i < 10; ++i) delta.prompt_tokens[i].logprob = logprob;
    delta.finish = FinishReason::kLength;
    delta.last = true;
    delta.usage.prompt_tokens = 10;
    engine_.EmitDelta(index, std::move(delta));
  }
};

TEST_F(DecisionsTest, EveryOptionIsScoredBehindItsQuestion) {
  auto exchange = Send("POST", "/v1/decisions", R"({"input":"It rains.","questions":[
      {"type":"choice","name":"c","instructions":"Which?",
       "choices":[{"value":"ab"},{"value":"cd","description":"the other"}]},
      {"type":"score","instructions":"How much?","levels":[{"label":"ef"},{"label":"gh"}]}]})");
  ASSERT_EQ(engine_.submitted.size(), 4u) << exchange->reply.body;
  for (const FakeEngine::Submitted& one : engine_.submitted) {
    EXPECT_EQ(one.request.max_tokens, 0);
    EXPECT_EQ(one.request.prompt_logprobs, 0);
  }
  const auto& ids = std::get<std::vector<int32_t>>(engine_.submitted[1].request.prompt);
  const std::string text(ids.begin(), ids.end());  // the fake engine has a token per byte
  EXPECT_NE(text.find("It rains."), std::string::npos);
  EXPECT_NE(text.find("- cd: the other"), std::string::npos);
  EXPECT_TRUE(text.ends_with("cd"));
  Score(0, std::log(0.5));   // the two tokens together have a quarter
  Score(1, std::log(0.25));  // and a sixteenth
  Score(2, -1);
  Score(3, -1);
  const Json body = exchange->body();
  const Json& choice = body["answers"][0];
  EXPECT_EQ(choice["type"], "choice");
  EXPECT_EQ(choice["name"], "c");
  EXPECT_EQ(choice["choice"], "ab");
  EXPECT_NEAR(choice["probabilities"][0]["probability"].get<double>(), 0.8, 1e-9);
  EXPECT_EQ(choice["probabilities"][1]["value"], "cd");
  EXPECT_NEAR(choice["confidence"].get<double>(), 0.278, 1e-3);
  const Json& score = body["answers"][1];
  EXPECT_TRUE(score["name"].is_null());
  EXPECT_NEAR(score["score"].get<double>(), 0.5, 1e-9);
  EXPECT_NEAR(score["confidence"].get<double>(), 0, 1e-9);
  EXPECT_EQ(score["probabilities"][1]["label"], "gh");
  EXPECT_EQ(score["probabilities"][1]["value"], 1);
  EXPECT_EQ(body["usage"]["input_tokens"], 40);
}

TEST_F(DecisionsTest, APredicateIsYesOrNo) {
  auto exchange = Send("POST", "/v1/decisions", R"({"input":"It rains.","questions":[
      {"type":"predicate","instructions":"It is wet."}]})");
  ASSERT_EQ(engine_.submitted.size(), 2u) << exchange->reply.body;
  TextDelta delta;
  delta.prompt_tokens.resize(3);
  for (TokenInfo& token : delta.prompt_tokens) token.logprob = -1;
  delta.finish = FinishReason::kLength;
  delta.last = true;
  engine_.EmitDelta(0, delta);  // three tokens of Yes
  engine_.EmitDelta(1, delta);  // two of No
  EXPECT_NEAR(exchange->body()["answers"][0]["probability"].get<double>(),
              std::exp(-3) / (std::exp(-3) + std::exp(-2)), 1e-9);
}

TEST_F(DecisionsTest, WhatDoesNotFitIsRefused) {
  engine_.max_model_len = 16;
  auto exchange = Send("POST", "/v1/decisions", R"({"input":"It rains.","questions":[
      {"type":"predicate","instructions":"It is wet."}]})");
  EXPECT_EQ(exchange->reply.status, 400);
  EXPECT_EQ(exchange->param(), "input");
  EXPECT_TRUE(engine_.submitted.empty());
}

TEST(DecisionsBodyTest, WhatIsWrongIsNamed) {
  const auto field = [](const std::string& fields) {
    const auto parsed = ParseDecisions(StrCat("{", fields, "}"), kDecider);
    EXPECT_FALSE(parsed.ok()) << fields;
    return parsed.status().field();
  };
  EXPECT_EQ(field(R"("questions":[])"), "input");
  EXPECT_EQ(field(R"("input":"a")"), "questions");
  const auto question = [&](const std::string& text) {
    return field(StrCat(R"("input":"a","questions":[{)", text, "}]"));
  };
  EXPECT_EQ(question(R"("type":"guess","instructions":"b")"), "questions[0].type");
  EXPECT_EQ(question(R"("type":"predicate")"), "questions[0].instructions");
  EXPECT_EQ(question(R"("type":"predicate","instructions":"b","levels":[])"),
            "questions[0].levels");
  EXPECT_EQ(question(R"("type":"choice","instructions":"b")"), "questions[0].choices");
  EXPECT_EQ(question(R"("type":"choice","instructions":"b","choices":[{"value":"c"}])"),
            "questions[0].choices");
  EXPECT_EQ(
      question(R"("type":"choice","instructions":"b","choices":[{"value":"c"},{"value":"c"}])"),
      "questions[0].choices");
  EXPECT_EQ(question(R"("type":"choice","instructions":"b","choices":[{"value":1},{"value":"c"}])"),
            "questions[0].choices[0].value");
  EXPECT_EQ(
      question(R"("type":"score","instructions":"b","levels":[{"label":true},{"label":"c"}])"),
      "questions[0].levels[0].label");
}

}  // namespace
}  // namespace sluice::server
