// Clients that lose a stream and come back to it.
#include "server/shared/resumable_streams.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "base/str_cat.h"
#include "server/routes_fixture.h"

namespace sluice::server {
namespace {

constexpr const char* kStream = R"({"prompt":"a","stream":true,"resume_seconds":60})";

class ResumableStreamsTest : public RoutesTest {
 protected:
  std::shared_ptr<FakeExchange> Resume(const std::string& id, const std::string& key = "") {
    HttpRequest request;
    request.method = "GET";
    request.path = "/v1/streams";
    request.authorization = key;
    request.last_event_id = id;
    auto exchange = std::make_shared<FakeExchange>();
    EXPECT_FALSE(routes_->Admit(&request).has_value());
    routes_->Handle(std::move(request), exchange);
    return exchange;
  }
  void Emit(const std::string& text) { engine_.Emit(0, text); }
  // The id of the last event that came.
  static std::string LastId(const FakeExchange& exchange) {
    const size_t at = exchange.streamed.rfind("id: stream_");
    const size_t end = exchange.streamed.find('\n', at);
    return exchange.streamed.substr(at + 4, end - at - 4);
  }
  static bool Has(const FakeExchange& exchange, const std::string& text) {
    return exchange.streamed.find(text) != std::string::npos;
  }
};

TEST_F(ResumableStreamsTest, AClientThatComesBackGetsWhatItMissedAndTheRest) {
  auto first = Send("POST", "/v1/completions", kStream);
  Emit("one");
  const std::string id = LastId(*first);
  first->disconnect();
  Emit("two");
  EXPECT_FALSE(Has(*first, "two"));
  EXPECT_EQ(engine_.cancels, 0u);
  auto second = Resume(id);
  EXPECT_FALSE(Has(*second, "one"));
  EXPECT_TRUE(Has(*second, "two"));
  engine_.Emit(0, "three", FinishReason::kStop, true);
  EXPECT_TRUE(Has(*second, "three"));
  EXPECT_TRUE(second->ended);
  // Once more, behind its end.
  auto third = Resume(id);
  EXPECT_EQ(third->streamed, second->streamed);
  EXPECT_TRUE(third->ended);
}

TEST_F(ResumableStreamsTest, SeveralClientsReadOneStream) {
  auto first = Send("POST", "/v1/completions", kStream);
  Emit("one");
  auto second = Resume(LastId(*first));
  Emit("two");
  EXPECT_FALSE(first->ended);
  EXPECT_TRUE(Has(*first, "two"));
  EXPECT_TRUE(Has(*second, "two"));
  first->disconnect();
  second->slow = true;
  auto third = Resume(LastId(*second));
  Emit("three");
  EXPECT_FALSE(Has(*first, "three") || Has(*second, "three"));
  engine_.Emit(0, "four", FinishReason::kStop, true);
  EXPECT_TRUE(Has(*third, "three") && Has(*third, "four") && third->ended);
  EXPECT_FALSE(first->ended || second->ended);
  EXPECT_EQ(engine_.cancels, 0u);
}

TEST_F(ResumableStreamsTest, TheReadersOfOneAreBounded) {
  auto first = Send("POST", "/v1/completions", kStream);
  Emit("one");
  const std::string id = LastId(*first);
  std::vector<std::shared_ptr<FakeExchange>> readers;
  for (size_t i = 1; i < ResumableStreams::kReadersMax; ++i) readers.push_back(Resume(id));
  EXPECT_FALSE(readers.back()->replied);
  EXPECT_EQ(Resume(id)->reply.status, 429);
  readers.front()->disconnect();
  EXPECT_FALSE(Resume(id)->replied);
}

TEST_F(ResumableStreamsTest, SoIsAMessageOfAnthropic) {
  auto first =
      Send("POST", "/v1/messages",
           R"({"messages":[{"role":"user","content":"a"}],"stream":true,"resume_seconds":9})");
  Emit("one");
  const std::string id = LastId(*first);
  first->disconnect();
  engine_.Emit(0, "two", FinishReason::kStop, true);
  EXPECT_EQ(engine_.cancels, 0u);
  auto second = Resume(id);
  EXPECT_FALSE(Has(*second, "one"));
  EXPECT_TRUE(Has(*second, "two"));
  EXPECT_TRUE(Has(*second, "event: message_stop"));
  EXPECT_TRUE(second->ended);
  Send("POST", "/v1/messages",
       R"({"messages":[{"role":"user","content":"a"}],"resume_seconds":9})");
  EXPECT_EQ(exchange_->reply.status, 400);
}

// By the number of an event, as OpenAI's client does, or by its id.
TEST_F(ResumableStreamsTest, AResponseIsGoneOnWithByItsOwnPath) {
  UseKeys("secret-one\nsecret-two\n");
  const std::string key = "Bearer secret-one";
  auto first =
      Send("POST", "/v1/responses", R"({"input":"a","stream":true,"resume_seconds":9})", key);
  Emit("one");
  const size_t at = first->streamed.find("resp_");
  ASSERT_NE(at, std::string::npos) << first->streamed;
  const std::string path = "/v1/responses/" + first->streamed.substr(at, 5 + 32);
  const size_t id = first->streamed.rfind("id: resp_");
  const std::string last = first->streamed.substr(id + 4, first->streamed.find('\n', id) - id - 4);
  const Json event = Json::parse(first->streamed.substr(first->streamed.rfind("data: ") + 6));
  first->disconnect();
  Emit("two");
  const auto get = [&](const std::string& query, const std::string& who) {
    return Send("GET", path + query, "", who);
  };
  const std::string after =
      StrCat("?stream=true&starting_after=", event["sequence_number"].get<int>());
  EXPECT_EQ(get(after, "Bearer secret-two")->reply.status, 404);
  EXPECT_EQ(get("?stream=true&starting_after=1000", key)->reply.status, 404);
  EXPECT_EQ(get("?stream=true&starting_after=x", key)->param(), "starting_after");
  EXPECT_EQ(get("?stream=1", key)->param(), "stream");
  EXPECT_EQ(get("", key)->body()["status"], "in_progress");
  EXPECT_EQ(engine_.cancels, 0u);
  auto second = get(after, key);
  EXPECT_FALSE(Has(*second, "one"));
  EXPECT_TRUE(Has(*second, "two"));
  engine_.Emit(0, "three", FinishReason::kStop, true);
  EXPECT_TRUE(Has(*second, "response.completed"));
  auto by_id = Resume(last, key);
  EXPECT_EQ(by_id->streamed, second->streamed);
  auto whole = get("?stream=true", key);
  EXPECT_EQ(whole->streamed, first->streamed + second->streamed);
  EXPECT_EQ(get("?stream=false", key)->body()["status"], "completed");
}

TEST_F(ResumableStreamsTest, ItEndsWhenNobodyComesBackInTime) {
  auto first =
      Send("POST", "/v1/completions", R"({"prompt":"a","stream":true,"resume_seconds":1})");
  Emit("one");
  const std::string id = LastId(*first);
  first->disconnect();
  while (engine_.cancels == 0) std::this_thread::yield();
  EXPECT_EQ(Resume(id)->reply.status, 404);
}

TEST_F(ResumableStreamsTest, OthersDoNotFindIt) {
  UseKeys("one\ntwo\n");
  auto first = Send("POST", "/v1/completions", kStream, "Bearer one");
  Emit("one");
  const std::string id = LastId(*first);
  for (const std::string& wrong : {id, id + "0", std::string("stream_0:1"), std::string("1"),
                                   std::string(), StrCat(id, "x")}) {
    EXPECT_EQ(Resume(wrong, "Bearer two")->reply.status, 404) << wrong;
  }
  const std::string stream = id.substr(0, id.find(':') + 1);
  for (const char* wrong : {"", "-1", " 1", "18446744073709551616", "99999999999999999999"}) {
    EXPECT_EQ(Resume(stream + wrong, "Bearer one")->reply.status, 404) << wrong;
  }
  EXPECT_EQ(Resume(id + "0", "Bearer one")->reply.status, 404);
  EXPECT_FALSE(Resume(id, "Bearer one")->replied);
}

TEST_F(ResumableStreamsTest, WhatIsKeptAndHowManyIsBounded) {
  auto first = Send("POST", "/v1/completions", kStream);
  Emit("one");
  const std::string id = LastId(*first);
  first->disconnect();
  for (int i = 0; i < 3; ++i) Emit(std::string(ResumableStreams::kBytesMax / 2, 'x'));
  EXPECT_EQ(Resume(id)->reply.status, 404);
  for (size_t i = 1; i < ResumableStreams::kStreamsMax; ++i) {
    EXPECT_FALSE(Send("POST", "/v1/completions", kStream)->replied);
  }
  EXPECT_EQ(Send("POST", "/v1/completions", kStream)->reply.status, 429);
}

TEST_F(ResumableStreamsTest, AKeyHasItsShareOfThoseThatRun) {
  UseKeys("one\ntwo\n");
  const auto send = [&](const char* key) { return Send("POST", "/v1/completions", kStream, key); };
  for (size_t i = 0; i < ResumableStreams::kStreamsMax / 2; ++i) {
    EXPECT_FALSE(send("Bearer one")->replied);
  }
  EXPECT_EQ(send("Bearer one")->reply.status, 429);
  for (size_t i = 0; i < ResumableStreams::kStreamsMax / 4; ++i) {
    EXPECT_FALSE(send("Bearer two")->replied);
  }
  EXPECT_EQ(send("Bearer two")->reply.status, 429);
  engine_.Emit(ResumableStreams::kStreamsMax / 2, "one", FinishReason::kStop, true);
  EXPECT_FALSE(send("Bearer two")->replied);
}

TEST_F(ResumableStreamsTest, ThoseThatHaveEndedMakeRoom) {
  UseKeys("one\ntwo\n");
  std::vector<std::string> ids;  // of streams that have ended
  for (size_t i = 0; i < ResumableStreams::kStreamsMax; ++i) {
    const char* const key = i == 0 ? "Bearer two" : "Bearer one";
    auto client = Send("POST", "/v1/completions", kStream, key);
    engine_.Emit(i, "one", FinishReason::kStop, true);
    EXPECT_TRUE(client->ended);
    ids.push_back(LastId(*client));
  }
  EXPECT_FALSE(Send("POST", "/v1/completions", kStream, "Bearer two")->replied);
  // The first of the key that has most.
  EXPECT_FALSE(Resume(ids[0], "Bearer two")->replied);
  EXPECT_EQ(Resume(ids[1], "Bearer one")->reply.status, 404);
  EXPECT_FALSE(Resume(ids[2], "Bearer one")->replied);
}

TEST_F(ResumableStreamsTest, OnlyStreamsAreResumed) {
  Send("POST", "/v1/completions", R"({"prompt":"a","resume_seconds":5})");
  EXPECT_EQ(exchange_->param(), "resume_seconds");
  Send("POST", "/v1/completions", R"({"prompt":"a","stream":true,"resume_seconds":61})");
  EXPECT_EQ(exchange_->param(), "resume_seconds");
  // What is refused before it begins is an answer as any other.
  engine_.submit_status = Status(StatusCode::kResourceExhausted, "the queue is full");
  EXPECT_EQ(Send("POST", "/v1/completions", kStream)->reply.status, 429);
}

}  // namespace
}  // namespace sluice::server
