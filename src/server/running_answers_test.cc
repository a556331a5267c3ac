// A client ends an answer that is running.
#include "server/running_answers.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/str_cat.h"
#include "server/fake_engine.h"
#include "server/fake_exchange.h"
#include "server/routes.h"

namespace sluice::server {
namespace {

constexpr const char* kPlainBody = R"({"messages":[{"role":"user","content":"hi"}]})";
constexpr const char* kStreamBody =
    R"({"stream":true,"messages":[{"role":"user","content":"hi"}]})";

class RunningAnswersTest : public ::testing::Test {
 protected:
  std::shared_ptr<FakeExchange> Send(const std::string& path, const std::string& body,
                                     const std::string& key = "Bearer secret-one") {
    HttpRequest request;
    request.method = "POST";
    request.path = path;
    request.body = body;
    request.authorization = key;
    request.request_id = "7";
    auto exchange = std::make_shared<FakeExchange>();
    EXPECT_FALSE(routes_->Admit(&request).has_value());
    routes_->Handle(std::move(request), exchange);
    return exchange;
  }
  std::shared_ptr<FakeExchange> Stop(const std::string& id,
                                     const std::string& key = "Bearer secret-one") {
    return Send("/v1/chat/completions/control", StrCat(R"({"action":"stop","id":")", id, "\"}"),
                key);
  }
  void SetUp() override {
    const std::string path = ::testing::TempDir() + "/sluice_running_answers_test_keys";
    std::ofstream(path) << "secret-one\nsecret-two\n";
    auto keys = ApiKeys::Load(path);
    ASSERT_TRUE(keys.ok()) << keys.status().message();
    routes_ = std::make_unique<Routes>(models_, std::move(keys).value(),
                                       [] { return HttpState{.connections = 1}; });
  }

  FakeEngine engine_;
  Models models_{engine_};
  std::unique_ptr<Routes> routes_;
};

TEST_F(RunningAnswersTest, WhatHasComeIsTheAnswer) {
  for (const char* body : {kPlainBody, kStreamBody}) {
    auto exchange = Send("/v1/chat/completions", body);
    const size_t request = engine_.submitted.size() - 1;
    engine_.Emit(request, "Hel");
    EXPECT_EQ(Stop("chatcmpl-7")->body()["status"], "ok");
    ASSERT_EQ(engine_.cancelled.size(), request + 1);
    EXPECT_EQ(engine_.cancelled.back(), request + 1);
    engine_.Emit(request, "lo", FinishReason::kCancelled, true);
    const std::string all = exchange->reply.body + exchange->streamed;
    EXPECT_NE(all.find(R"("finish_reason":"stop")"), std::string::npos) << all;
    EXPECT_NE(all.find("lo"), std::string::npos) << all;
    EXPECT_EQ(all.find("error"), std::string::npos) << all;
  }
}

TEST_F(RunningAnswersTest, OtherApisHaveIdsOfTheirOwn) {
  auto exchange = Send("/v1/messages", kPlainBody);
  EXPECT_EQ(Stop("msg_7")->reply.status, 200);
  engine_.Emit(0, "Hel", FinishReason::kCancelled, true);
  EXPECT_EQ(exchange->body()["stop_reason"], "end_turn");
  // Its id is drawn, and a stream tells it at its beginning.
  exchange = Send("/v1/responses", R"({"stream":true,"input":"hi"})");
  engine_.Emit(1, "Hel");
  const std::string& all = exchange->streamed;
  const size_t id = all.find("resp_");
  ASSERT_NE(id, std::string::npos) << all;
  EXPECT_EQ(Stop(all.substr(id, all.find('"', id) - id))->reply.status, 200);
  engine_.Emit(1, "lo", FinishReason::kCancelled, true);
  EXPECT_NE(all.find("response.completed"), std::string::npos) << all;
}

TEST_F(RunningAnswersTest, AnotherKeyDoesNotKnowOfIt) {
  auto exchange = Send("/v1/chat/completions", kPlainBody);
  EXPECT_EQ(Stop("chatcmpl-7", "Bearer secret-two")->reply.status, 404);
  EXPECT_EQ(Stop("chatcmpl-8")->reply.status, 404);
  EXPECT_TRUE(engine_.cancelled.empty());
}

TEST_F(RunningAnswersTest, OneThatHasEndedIsNotFound) {
  Send("/v1/chat/completions", kPlainBody);
  engine_.Emit(0, "Hello", FinishReason::kStop, true);
  engine_.submitted.clear();  // and with the sink what it keeps
  EXPECT_EQ(Stop("chatcmpl-7")->reply.status, 404);
}

TEST_F(RunningAnswersTest, EachPromptOfACallEnds) {
  auto exchange = Send("/v1/completions", R"({"prompt":["a","b"]})");
  EXPECT_EQ(Stop("cmpl-7")->reply.status, 200);
  EXPECT_EQ(engine_.cancelled.size(), 2u);
  engine_.Emit(0, "x", FinishReason::kCancelled, true);
  engine_.Emit(1, "y", FinishReason::kStop, true);
  EXPECT_EQ(exchange->body()["choices"][0]["finish_reason"], "stop");
}

TEST_F(RunningAnswersTest, WrongBodiesAreToldWhy) {
  for (const auto& [body, param] : std::vector<std::pair<std::string, std::string>>{
           {R"({"action":"stop"})", "id"},
           {R"({"id":"chatcmpl-7"})", "action"},
           {R"({"id":"chatcmpl-7","action":"pause"})", "action"},
           {R"({"id":"chatcmpl-7","action":"stop","more":1})", "more"}}) {
    auto exchange = Send("/v1/chat/completions/control", body);
    EXPECT_EQ(exchange->reply.status, 400) << body;
    EXPECT_EQ(exchange->param(), param) << body;
  }
}

}  // namespace
}  // namespace sluice::server
