// Responses that clients ask for, cancel or delete while they run, and those that run without a
// client.
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "base/str_cat.h"
#include "server/routes_fixture.h"

namespace sluice::server {
namespace {

constexpr const char* kPath = "/v1/responses/";
constexpr const char* kBackground = R"({"input":"hi","background":true})";

class RunningResponsesTest : public RoutesTest {
 protected:
  std::shared_ptr<FakeExchange> Post(const std::string& body, const std::string& key = "") {
    return Send("POST", "/v1/responses", body, key);
  }
  std::shared_ptr<FakeExchange> Get(const std::string& id, const std::string& query = "",
                                    const std::string& key = "") {
    return Send("GET", StrCat(kPath, id, query), "", key);
  }
  std::shared_ptr<FakeExchange> Cancel(const std::string& id, const std::string& key = "") {
    return Send("POST", StrCat(kPath, id, "/cancel"), "", key);
  }
  // A stream whose first piece has come; its id.
  std::shared_ptr<FakeExchange> BeginStream(const std::string& more, std::string* id) {
    auto exchange = Post(StrCat(R"({"input":"hi","stream":true)", more, "}"));
    engine_.Emit(engine_.submitted.size() - 1, "Hel");
    *id = exchange->streamed.substr(exchange->streamed.find("resp_"), 5 + 32);
    return exchange;
  }
};

TEST_F(RunningResponsesTest, OneThatRunsIsShownAsFarAsItHasCome) {
  std::string id;
  auto exchange = BeginStream(R"(,"metadata":{"a":"b"})", &id);
  Json now = Get(id)->body();
  EXPECT_EQ(now["id"], id);
  EXPECT_EQ(now["object"], "response");
  EXPECT_EQ(now["status"], "in_progress");
  EXPECT_EQ(now["background"], false);
  EXPECT_EQ(now["metadata"]["a"], "b");
  EXPECT_EQ(now["output"][0]["status"], "in_progress");
  EXPECT_EQ(now["output"][0]["content"][0]["text"], "Hel");
  engine_.Emit(0, "lo", FinishReason::kStop, true);
  now = Get(id)->body();
  EXPECT_EQ(now["status"], "completed");
  EXPECT_EQ(now["output"][0]["content"][0]["text"], "Hello");
}

TEST_F(RunningResponsesTest, OneThatRunsIsDeleted) {
  std::string id;
  auto exchange = BeginStream("", &id);
  EXPECT_TRUE(Send("DELETE", StrCat(kPath, id))->body()["deleted"]);
  EXPECT_EQ(engine_.cancelled, std::vector<RequestId>{1});
  EXPECT_TRUE(exchange->ended);
  EXPECT_EQ(exchange->named_events().back().second["response"]["status"], "cancelled");
  engine_.Emit(0, "lo", FinishReason::kCancelled, true);
  EXPECT_EQ(exchange->streamed.find("\"lo\""), std::string::npos);
  EXPECT_EQ(Get(id)->reply.status, 404);
  EXPECT_EQ(Send("DELETE", StrCat(kPath, id))->reply.status, 404);
}

TEST_F(RunningResponsesTest, OneThatRunsIsCancelled) {
  std::string id;
  auto exchange = BeginStream("", &id);
  const auto cancelled = Cancel(id);
  EXPECT_EQ(cancelled->body()["status"], "cancelled");
  EXPECT_EQ(cancelled->body()["output"][0]["content"][0]["text"], "Hel");
  EXPECT_EQ(cancelled->body()["output"][0]["status"], "incomplete");
  EXPECT_EQ(engine_.cancelled, std::vector<RequestId>{1});
  const auto last = exchange->named_events().back();
  EXPECT_EQ(last.first, "response.incomplete");
  EXPECT_EQ(last.second["response"], cancelled->body());
  EXPECT_TRUE(exchange->ended);
  // It is kept so, and asking for it once more changes nothing.
  EXPECT_EQ(Get(id)->body(), cancelled->body());
  EXPECT_EQ(Cancel(id)->body(), cancelled->body());
  Post(StrCat(R"({"input":"and?","previous_response_id":")", id, "\"}"));
  EXPECT_EQ(exchange_->param(), "previous_response_id");
}

TEST_F(RunningResponsesTest, OnlyOneThatRunsIsCancelled) {
  const auto whole = Post(R"({"input":"hi"})");
  engine_.Emit(0, "Hello", FinishReason::kStop, true);
  const std::string id = whole->body()["id"];
  const auto refused = Cancel(id);
  EXPECT_EQ(refused->reply.status, 400);
  EXPECT_NE(refused->reply.body.find("is completed"), std::string::npos) << refused->reply.body;
  EXPECT_EQ(Cancel("resp_none")->reply.status, 404);
  EXPECT_EQ(Send("POST", StrCat(kPath, id))->reply.status, 404);
  // Answers of other APIs have ids, too, and no form here.
  Send("POST", "/v1/chat/completions", R"({"messages":[{"role":"user","content":"a"}]})");
  EXPECT_EQ(Get("chatcmpl-the-id")->reply.status, 404);
  EXPECT_EQ(Cancel("chatcmpl-the-id")->reply.status, 404);
  EXPECT_TRUE(engine_.cancelled.empty());
}

TEST_F(RunningResponsesTest, InTheBackgroundItGoesOnWithoutItsClient) {
  const auto begun = Post(kBackground);
  ASSERT_EQ(begun->reply.status, 200) << begun->reply.body;
  EXPECT_EQ(begun->body()["status"], "in_progress");
  EXPECT_EQ(begun->body()["background"], true);
  EXPECT_EQ(begun->body()["output"], Json::array());
  EXPECT_FALSE(begun->disconnect);
  const std::string id = begun->body()["id"];
  engine_.Emit(0, "Hel");
  EXPECT_EQ(Get(id)->body()["output"][0]["content"][0]["text"], "Hel");
  auto reader = Get(id, "?stream=true");
  reader->disconnect();
  EXPECT_EQ(engine_.cancels, 0u);
  engine_.Emit(0, "lo", FinishReason::kStop, true);
  const Json ended = Get(id)->body();
  EXPECT_EQ(ended["status"], "completed");
  EXPECT_EQ(ended["output"][0]["content"][0]["text"], "Hello");
  const auto whole = Get(id, "?stream=true");
  EXPECT_TRUE(whole->ended);
  EXPECT_NE(whole->streamed.find("response.created"), std::string::npos);
  EXPECT_NE(whole->streamed.find("response.completed"), std::string::npos);
  Post(StrCat(R"({"input":"and?","previous_response_id":")", id, "\"}"));
  EXPECT_EQ(engine_.submitted.size(), 2u) << exchange_->reply.body;
}

TEST_F(RunningResponsesTest, InTheBackgroundItIsStreamedToWhoWants) {
  auto exchange = Post(R"({"input":"hi","background":true,"stream":true})");
  EXPECT_NE(exchange->streamed.find("response.created"), std::string::npos);
  engine_.Emit(0, "Hel");
  exchange->disconnect();
  EXPECT_EQ(engine_.cancels, 0u);
  const std::string id = exchange->streamed.substr(exchange->streamed.find("resp_"), 5 + 32);
  auto second = Get(id, "?stream=true&starting_after=1");
  engine_.Emit(0, "lo", FinishReason::kStop, true);
  EXPECT_EQ(second->streamed.find("response.created"), std::string::npos);
  EXPECT_NE(second->streamed.find("response.completed"), std::string::npos);
}

TEST_F(RunningResponsesTest, InTheBackgroundItIsCancelled) {
  const std::string id = Post(kBackground)->body()["id"];
  EXPECT_EQ(Cancel(id)->body()["status"], "cancelled");
  EXPECT_EQ(engine_.cancelled, std::vector<RequestId>{1});
  EXPECT_EQ(Get(id)->body()["status"], "cancelled");
}

TEST_F(RunningResponsesTest, InTheBackgroundAFailureIsKept) {
  const std::string id = Post(kBackground)->body()["id"];
  TextDelta delta;
  delta.finish = FinishReason::kError;
  delta.last = true;
  delta.error = Status(StatusCode::kTooLarge, "the prompt is too long");
  engine_.EmitDelta(0, std::move(delta));
  const Json failed = Get(id)->body();
  EXPECT_EQ(failed["status"], "failed");
  EXPECT_EQ(failed["error"]["code"], "invalid_prompt");
  EXPECT_EQ(failed["error"]["message"], "the prompt is too long");
}

TEST_F(RunningResponsesTest, WhatIsRefusedDoesNotRunInTheBackground) {
  engine_.submit_status = Status(StatusCode::kResourceExhausted, "the queue is full");
  EXPECT_EQ(Post(kBackground)->reply.status, 429);
  EXPECT_EQ(Post(R"({"input":"hi","background":true,"store":false})")->param(), "background");
  engine_.submit_status = OkStatus();
  for (size_t i = 0; i < ResumableStreams::kStreamsMax; ++i) {
    ASSERT_EQ(Post(kBackground)->reply.status, 200);
  }
  EXPECT_EQ(Post(kBackground)->reply.status, 429);
  EXPECT_EQ(exchange_->param(), "background");
}

// Who reads, looks, cancels and deletes does so while pieces come and the answer ends.
TEST_F(RunningResponsesTest, AllAtOnceEachAnswerEndsOnce) {
  constexpr size_t kAnswers = 48;
  std::vector<std::string> ids;
  for (size_t i = 0; i < kAnswers; ++i) ids.push_back(Post(kBackground)->body()["id"]);
  const auto send = [this](const std::string& method, const std::string& path,
                           const std::string& query = "") {
    HttpRequest request;
    request.method = method;
    request.path = path;
    request.query = query;
    auto exchange = std::make_shared<FakeExchange>();
    if (!routes_->Admit(&request)) routes_->Handle(std::move(request), exchange);
    return exchange;
  };
  std::vector<std::shared_ptr<FakeExchange>> readers;
  std::thread emits([this] {
    for (int piece = 0; piece < 3; ++piece) {
      for (size_t i = 0; i < kAnswers; ++i) {
        engine_.Emit(i, "a", piece == 2 ? FinishReason::kStop : FinishReason::kNone, piece == 2);
      }
    }
  });
  std::thread reads([&] {
    for (const std::string& id : ids) readers.push_back(send("GET", kPath + id, "stream=true"));
  });
  std::thread ends([&] {
    for (size_t i = 0; i < kAnswers; i += 3) send("POST", StrCat(kPath, ids[i], "/cancel"));
    for (size_t i = 1; i < kAnswers; i += 3) send("DELETE", kPath + ids[i]);
  });
  for (const std::string& id : ids) send("GET", kPath + id);
  emits.join();
  reads.join();
  ends.join();
  for (size_t i = 0; i < kAnswers; ++i) {
    const auto now = send("GET", kPath + ids[i]);
    if (i % 3 == 1) {
      EXPECT_EQ(now->reply.status, 404);
    } else {
      const std::string status = now->body()["status"];
      EXPECT_TRUE(status == "completed" || (i % 3 == 0 && status == "cancelled")) << status;
    }
    const std::string& read = readers[i]->streamed;
    if (readers[i]->replied) continue;  // it was deleted before
    EXPECT_TRUE(readers[i]->ended);
    const bool completed = read.find("event: response.completed") != std::string::npos;
    const bool cancelled = read.find("event: response.incomplete") != std::string::npos;
    EXPECT_NE(completed, cancelled) << read;
  }
}

TEST_F(RunningResponsesTest, AnotherKeyDoesNotKnowOfIt) {
  UseKeys("one\ntwo\n");
  const std::string id = Post(kBackground, "Bearer one")->body()["id"];
  EXPECT_EQ(Get(id, "", "Bearer two")->reply.status, 404);
  EXPECT_EQ(Get(id, "?stream=true", "Bearer two")->reply.status, 404);
  EXPECT_EQ(Cancel(id, "Bearer two")->reply.status, 404);
  EXPECT_EQ(Send("DELETE", StrCat(kPath, id), "", "Bearer two")->reply.status, 404);
  EXPECT_TRUE(engine_.cancelled.empty());
  EXPECT_EQ(Get(id, "", "Bearer one")->body()["status"], "in_progress");
}

}  // namespace
}  // namespace sluice::server
