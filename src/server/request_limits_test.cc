// Deadlines of requests, and keys that change while the server runs.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "server/routes_fixture.h"

namespace sluice::server {
namespace {

constexpr const char* kBrief = R"({"prompt":"a","timeout":0.001})";

class RequestLimitsTest : public RoutesTest {
 protected:
  // Until the deadline has come to the engine.
  void WaitForCancel() {
    while (engine_.cancels == 0) std::this_thread::yield();
  }
};

TEST_F(RequestLimitsTest, WhatHasComeAtTheDeadlineIsTheAnswer) {
  auto exchange = Send("POST", "/v1/completions", kBrief);
  TextDelta delta;
  delta.text = "Hel";
  delta.tokens.resize(1);
  engine_.EmitDelta(0, delta);
  WaitForCancel();
  engine_.Emit(0, "lo", FinishReason::kCancelled, true);
  EXPECT_EQ(exchange->body()["choices"][0]["text"], "Hello");
  EXPECT_EQ(exchange->body()["choices"][0]["finish_reason"], "timeout");
}

TEST_F(RequestLimitsTest, ARequestThatNeverBeganFailsAtItsDeadline) {
  auto exchange = Send("POST", "/v1/completions", kBrief);
  WaitForCancel();
  engine_.Emit(0, "", FinishReason::kCancelled, true);
  EXPECT_EQ(exchange->reply.status, 504);
  EXPECT_EQ(exchange->param(), "timeout");
}

TEST_F(RequestLimitsTest, AVectorThatIsLateFails) {
  auto exchange = Send("POST", "/v1/embeddings", R"({"input":"a","timeout":0.001})");
  while (!exchange->replied) std::this_thread::yield();
  EXPECT_EQ(exchange->reply.status, 504);
}

TEST_F(RequestLimitsTest, TheHeaderSaysItForEveryApi) {
  HttpRequest request;
  request.method = "POST";
  request.path = "/v1/messages";
  request.body = R"({"messages":[{"role":"user","content":"hi"}],"max_tokens":9})";
  request.timeout = "0.001";
  auto exchange = std::make_shared<FakeExchange>();
  routes_->Handle(request, exchange);
  WaitForCancel();
  engine_.Emit(0, "", FinishReason::kCancelled, true);
  EXPECT_EQ(exchange->reply.status, 504);
  for (const char* wrong : {"0", "-1", "soon", "1s", "nan", "1e9"}) {
    request.timeout = wrong;
    exchange = std::make_shared<FakeExchange>();
    routes_->Handle(request, exchange);
    EXPECT_EQ(exchange->reply.status, 400) << wrong;
  }
}

TEST_F(RequestLimitsTest, WrongTimeoutsAreToldWhy) {
  for (const char* wrong : {"0", "-1", "86401", "\"5\""}) {
    Send("POST", "/v1/completions", std::string(R"({"prompt":"a","timeout":)") + wrong + "}");
    EXPECT_EQ(exchange_->reply.status, 400) << wrong;
    EXPECT_EQ(exchange_->param(), "timeout") << wrong;
  }
}

TEST_F(RequestLimitsTest, KeysHaveWeightsAndMayBeReplaced) {
  UseKeys("one\ntwo weight=5\n");
  Send("POST", "/v1/completions", R"({"prompt":"a"})", "Bearer one");
  Send("POST", "/v1/completions", R"({"prompt":"a"})", "Bearer two");
  ASSERT_EQ(engine_.submitted.size(), 2u);
  EXPECT_EQ(engine_.submitted[0].request.client_weight, 1);
  EXPECT_EQ(engine_.submitted[1].request.client_weight, 5);
  const std::string path = ::testing::TempDir() + "/sluice_request_limits_test_keys";
  std::ofstream(path) << "three\n";
  routes_->ReplaceKeys(*ApiKeys::Load(path));
  EXPECT_EQ(Send("GET", "/v1/models", "", "Bearer one")->reply.status, 401);
  EXPECT_EQ(Send("GET", "/v1/models", "", "Bearer three")->reply.status, 200);
}

TEST_F(RequestLimitsTest, TheNameOfAKeyIsNoted) {
  UseKeys("one name=team-a weight=2\ntwo\n");
  EXPECT_EQ(Send("GET", "/v1/models", "", "Bearer one")->fields["key"], "team-a");
  EXPECT_TRUE(Send("GET", "/v1/models", "", "Bearer two")->fields.is_null());
}

}  // namespace
}  // namespace sluice::server
