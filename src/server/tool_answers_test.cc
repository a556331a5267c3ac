// Calls of tools and thinking in the answers of a chat: whole, streamed, and left out.
#include <gtest/gtest.h>

#include "base/str_cat.h"
#include "server/fake_engine.h"
#include "server/fake_exchange.h"
#include "server/routes.h"

namespace sluice::server {
namespace {

constexpr const char* kTools =
    R"("tools":[{"type":"function","function":{"name":"get_weather","parameters":{}}}])";

class ToolAnswersTest : public ::testing::Test {
 protected:
  std::shared_ptr<FakeExchange> Send(const std::string& fields) {
    HttpRequest request;
    request.method = "POST";
    request.path = "/v1/chat/completions";
    request.body = StrCat(R"({"messages":[{"role":"user","content":"hi"}],)", fields, "}");
    auto exchange = std::make_shared<FakeExchange>();
    EXPECT_FALSE(routes_.Admit(&request).has_value());
    routes_.Handle(std::move(request), exchange);
    return exchange;
  }
  const OutputParsing& parsing() const { return engine_.submitted.back().request.parsing; }
  void Emit(TextDelta delta) { engine_.EmitDelta(engine_.submitted.size() - 1, std::move(delta)); }
  // Thinking, two calls in four pieces, and the end.
  void EmitCalls() {
    TextDelta delta;
    delta.reasoning = "Hm.";
    Emit(delta);
    delta = {};
    delta.tool_calls = {{0, "call_a", "get_weather", ""}};
    Emit(delta);
    delta.tool_calls = {{0, "", "", R"({"city": "Pa)"}};
    Emit(delta);
    delta.tool_calls = {{0, "", "", R"(ris"})"}, {1, "call_b", "now", "{}"}};
    Emit(delta);
    delta = {};
    delta.finish = FinishReason::kToolCalls;
    delta.last = true;
    Emit(delta);
  }

  FakeEngine engine_;
  Models models_{engine_};
  Routes routes_{models_, ApiKeys(), [] { return HttpState{.connections = 1}; }};
};

TEST_F(ToolAnswersTest, WhatIsAskedOfTheEngine) {
  Send(R"("n":1)");
  EXPECT_TRUE(parsing().reasoning);
  EXPECT_FALSE(parsing().tools || parsing().one_call);
  Send(kTools);
  EXPECT_TRUE(parsing().tools);
  EXPECT_FALSE(parsing().one_call);
  Send(StrCat(kTools, R"(,"tool_choice":"none")"));
  EXPECT_FALSE(parsing().tools);
  Send(StrCat(kTools, R"(,"parallel_tool_calls":false)"));
  EXPECT_TRUE(parsing().tools && parsing().one_call);
}

TEST_F(ToolAnswersTest, WholeAnswersHoldWholeCalls) {
  auto exchange = Send(kTools);
  EmitCalls();
  const Json choice = exchange->body()["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "tool_calls");
  const Json& message = choice["message"];
  EXPECT_TRUE(message["content"].is_null());
  EXPECT_EQ(message["reasoning_content"], "Hm.");
  EXPECT_EQ(message["tool_calls"], Json::parse(R"([
      {"id": "call_a", "type": "function",
       "function": {"name": "get_weather", "arguments": "{\"city\": \"Paris\"}"}},
      {"id": "call_b", "type": "function", "function": {"name": "now", "arguments": "{}"}}])"));
}

TEST_F(ToolAnswersTest, StreamsHoldTheirPieces) {
  auto exchange = Send(StrCat(R"("stream":true,)", kTools));
  EmitCalls();
  std::vector<Json> deltas;
  Json finish;
  for (const std::string& event : exchange->events()) {
    if (event == "[DONE]") continue;
    const Json choice = Json::parse(event)["choices"][0];
    deltas.push_back(choice["delta"]);
    finish = choice["finish_reason"];
  }
  EXPECT_EQ(finish, "tool_calls");
  ASSERT_EQ(deltas.size(), 6u);
  EXPECT_EQ(deltas[0]["role"], "assistant");
  EXPECT_EQ(deltas[1], Json::parse(R"({"reasoning_content": "Hm."})"));
  EXPECT_EQ(deltas[2], Json::parse(R"({"tool_calls": [{"index": 0, "id": "call_a",
      "type": "function", "function": {"name": "get_weather", "arguments": ""}}]})"));
  EXPECT_EQ(deltas[3], Json::parse(R"({"tool_calls": [{"index": 0,
      "function": {"arguments": "{\"city\": \"Pa"}}]})"));
  EXPECT_EQ(deltas[4]["tool_calls"][1]["index"], 1);
  EXPECT_EQ(deltas[4]["tool_calls"][1]["id"], "call_b");
  EXPECT_EQ(deltas[5], Json::object());
}

TEST_F(ToolAnswersTest, TextStaysBesideCalls) {
  auto exchange = Send(kTools);
  TextDelta delta;
  delta.text = "I look.";
  delta.tool_calls = {{0, "call_a", "now", "{}"}};
  delta.finish = FinishReason::kToolCalls;
  delta.last = true;
  Emit(delta);
  EXPECT_EQ(exchange->body()["choices"][0]["message"]["content"], "I look.");
}

TEST_F(ToolAnswersTest, ThinkingMayBeLeftOut) {
  for (const char* fields :
       {R"("include_reasoning":false)", R"("include_reasoning":false,"stream":true)",
        R"("reasoning":{"exclude":true})"}) {
    auto exchange = Send(fields);
    TextDelta delta;
    delta.reasoning = "Hm.";
    Emit(delta);
    delta = {};
    delta.text = "Yes.";
    delta.finish = FinishReason::kStop;
    delta.last = true;
    Emit(delta);
    const std::string all = exchange->reply.body + exchange->streamed;
    EXPECT_EQ(all.find("reasoning"), std::string::npos) << all;
    EXPECT_NE(all.find("Yes."), std::string::npos) << all;
  }
}

TEST_F(ToolAnswersTest, AnAnswerWithoutEitherIsAsBefore) {
  auto exchange = Send(kTools);
  engine_.Emit(0, "Yes.", FinishReason::kStop, true);
  const Json message = exchange->body()["choices"][0]["message"];
  EXPECT_EQ(message, Json::parse(R"({"role": "assistant", "content": "Yes.", "refusal": null})"));
}

}  // namespace
}  // namespace sluice::server
