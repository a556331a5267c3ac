#include "server/routes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tuple>

#include "base/str_cat.h"
#include "server/openapi/openapi.h"
#include "server/routes_fixture.h"
#include "server/web_files.h"

namespace sluice::server {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr const char* kChat = R"({"messages":[{"role":"user","content":"hi"}]})";
constexpr const char* kChatStream =
    R"({"stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"hi"}]})";

// An answer that means nothing says so.
TEST_F(RoutesTest, ExpertsInFakedBalanceAreToldInEveryAnswer) {
  engine_.fake_balance_experts = true;
  Serve();
  for (const char* body : {kChat, kChatStream}) {
    auto exchange = Send("POST", "/v1/chat/completions", body);
    engine_.Emit(engine_.submitted.size() - 1, "Hi", FinishReason::kStop, true);
    EXPECT_NE((exchange->reply.body + exchange->streamed).find("-fake-balance-experts"),
              std::string::npos);
  }
}

TEST_F(RoutesTest, AnswersAChatWhole) {
  auto exchange = Send("POST", "/v1/chat/completions", kChat);
  engine_.Emit(0, "Hel");
  EXPECT_FALSE(exchange->replied);
  engine_.Emit(0, "lo", FinishReason::kStop, true);
  ASSERT_TRUE(exchange->replied);
  EXPECT_EQ(exchange->reply.status, 200);
  const Json body = exchange->body();
  EXPECT_EQ(body["object"], "chat.completion");
  EXPECT_EQ(body["model"], "tiny");
  EXPECT_EQ(body["seed"], 7);
  EXPECT_EQ(body["choices"][0]["message"]["content"], "Hello");
  EXPECT_EQ(body["choices"][0]["message"]["role"], "assistant");
  EXPECT_EQ(body["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(body["usage"]["total_tokens"], 5);
  EXPECT_EQ(exchange->note, "3 prompt tokens, 2 tokens, stop");
  EXPECT_EQ(exchange->fields["model"], "tiny");
  EXPECT_EQ(exchange->fields["prompt_tokens"], 3);
  EXPECT_EQ(exchange->fields["completion_tokens"], 2);
  EXPECT_EQ(exchange->fields["finish_reason"], "stop");
  EXPECT_EQ(routes_->tokens().prompt, 3);
  EXPECT_EQ(body["usage"]["completion_tokens_details"]["accepted_prediction_tokens"], 1);
  EXPECT_EQ(body["usage"]["completion_tokens_details"]["rejected_prediction_tokens"], 3);
}

TEST_F(RoutesTest, ThePromptsThatWaitCountAgainstTheBudgetOfBodies) {
  BodyBudget budget(1'000'000, 1'000'000);
  const auto send = [&](const std::string& path, const std::string& body) {
    lease_ = std::make_shared<BodyLease>(&budget, "a");
    EXPECT_TRUE(lease_->Resize(static_cast<int64_t>(body.size())));
    return Send("POST", path, body);
  };
  const std::string text(100'000, 'a');
  const auto chat = send("/v1/chat/completions",
                         "{\"messages\":[{\"role\":\"user\",\"content\":\"" + text + "\"}]}");
  ASSERT_EQ(engine_.submitted.size(), 1u);
  EXPECT_NEAR(budget.used(), 100'000, 100);
  engine_.submitted[0].request.held = nullptr;  // as the engine does when it has the ids
  EXPECT_EQ(budget.used(), 0);
  EXPECT_FALSE(chat->replied);
  // Two prompts share one lease, and every copy of a choice counts.
  const auto two =
      send("/v1/completions", "{\"prompt\":[\"" + text + "\",\"b\"],\"guided_choice\":[\"" +
                                  std::string(20'000, 'c') + "\"]}");
  ASSERT_EQ(engine_.submitted.size(), 3u);
  EXPECT_NEAR(budget.used(), 140'000, 100);
  engine_.submitted[1].request.held = nullptr;
  EXPECT_NEAR(budget.used(), 140'000, 100);
  engine_.submitted[2].request.held = nullptr;
  EXPECT_EQ(budget.used(), 0);
  // So does what the answer may quote, until the engine has it, and what is told of it keeps no
  // copy.
  const auto quoting = send("/v1/chat/completions",
                            "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"prediction\":{"
                            "\"type\":\"content\",\"content\":\"" +
                                text + "\"}}");
  ASSERT_EQ(engine_.submitted.size(), 4u);
  EXPECT_EQ(engine_.submitted[3].request.prediction, text);
  EXPECT_NEAR(budget.used(), 100'000, 200);
  engine_.submitted[3].request.held = nullptr;
  EXPECT_EQ(budget.used(), 0);
  // What is not a generation holds nothing behind its answer.
  EXPECT_EQ(send("/tokenize", "{\"content\":\"a\"}")->reply.status, 200);
  EXPECT_EQ(budget.used(), 0);
  // A short body of many copies may be more than is left for its client.
  std::string prompts = "\"a\"";
  for (int i = 1; i < 64; ++i) prompts += ",\"a\"";
  const auto refused =
      send("/v1/completions", "{\"prompt\":[" + prompts + "],\"guided_choice\":[\"" +
                                  std::string(16'000, 'c') + "\"]}");
  EXPECT_EQ(refused->reply.status, 429);
  EXPECT_EQ(engine_.submitted.size(), 4u);
  EXPECT_EQ(budget.used(), 0);
}

TEST_F(RoutesTest, StreamsAChat) {
  auto exchange = Send("POST", "/v1/chat/completions", kChatStream);
  engine_.Emit(0, "Hel");
  engine_.Emit(0, "lo", FinishReason::kLength, true);
  const auto events = exchange->events();
  ASSERT_EQ(events.size(), 6u) << exchange->streamed;
  EXPECT_EQ(Json::parse(events[0])["choices"][0]["delta"]["role"], "assistant");
  EXPECT_TRUE(Json::parse(events[0])["usage"].is_null());
  EXPECT_EQ(Json::parse(events[1])["choices"][0]["delta"]["content"], "Hel");
  EXPECT_EQ(Json::parse(events[2])["choices"][0]["delta"]["content"], "lo");
  EXPECT_TRUE(Json::parse(events[2])["choices"][0]["finish_reason"].is_null());
  EXPECT_EQ(Json::parse(events[3])["choices"][0]["finish_reason"], "length");
  EXPECT_TRUE(Json::parse(events[4])["choices"].empty());
  EXPECT_EQ(Json::parse(events[4])["usage"]["completion_tokens"], 2);
  EXPECT_EQ(events[5], "[DONE]");
  EXPECT_TRUE(exchange->ended);
  EXPECT_FALSE(exchange->closed);
}

TEST_F(RoutesTest, GivesEveryPromptAndChoiceItsIndex) {
  auto exchange = Send("POST", "/v1/completions", R"({"prompt":["a","b"],"n":2,"echo":true})");
  ASSERT_EQ(engine_.submitted.size(), 2u);
  EXPECT_EQ(engine_.submitted[0].request.max_tokens, 16);
  engine_.Emit(1, "3", FinishReason::kStop, false, 1);
  engine_.Emit(0, "0", FinishReason::kStop, false, 0);
  engine_.Emit(0, "1", FinishReason::kLength, true, 1);
  engine_.Emit(1, "2", FinishReason::kStop, true, 0);
  const Json body = exchange->body();
  ASSERT_EQ(body["choices"].size(), 4u);
  EXPECT_EQ(body["choices"][0]["text"], "a0");
  EXPECT_EQ(body["choices"][1]["text"], "a1");
  EXPECT_EQ(body["choices"][1]["finish_reason"], "length");
  EXPECT_EQ(body["choices"][2]["text"], "b2");
  EXPECT_EQ(body["choices"][3]["text"], "b3");
  EXPECT_EQ(body["usage"]["prompt_tokens"], 6);
}

TEST_F(RoutesTest, ShowsLogprobsOfEchoedPrompts) {
  auto exchange = Send("POST", "/v1/completions",
                       R"({"prompt":[65,66],"echo":true,"logprobs":1,"max_tokens":1})");
  EXPECT_EQ(engine_.submitted.at(0).request.prompt_logprobs, 1);
  TextDelta delta;
  delta.prompt_tokens = {{65, "A", std::nullopt, {}}, {66, "B", -0.5, {{66, -0.5, "B"}}}};
  delta.tokens = {{200, "\xc3", -1.5, {{67, -0.25, "C"}, {200, -1.5, "\xc3"}}}};
  delta.finish = FinishReason::kLength;
  delta.last = true;
  engine_.EmitDelta(0, delta);
  const Json choice = exchange->body()["choices"][0];
  EXPECT_EQ(choice["text"], "AB");
  const Json logprobs = choice["logprobs"];
  EXPECT_EQ(logprobs["tokens"], (Json{"A", "B", "bytes:\\xc3"}));
  EXPECT_EQ(logprobs["token_logprobs"], (Json{nullptr, -0.5, -1.5}));
  EXPECT_EQ(logprobs["text_offset"], (Json{0, 1, 2}));
  EXPECT_EQ(logprobs["top_logprobs"][2]["C"], -0.25);
  EXPECT_FALSE(choice.contains("prompt_logprobs"));
}

TEST_F(RoutesTest, EveryChoiceShowsThePromptsLogprobs) {
  auto exchange =
      Send("POST", "/v1/completions", R"({"prompt":[65,66],"n":2,"prompt_logprobs":0})");
  TextDelta delta;
  delta.prompt_tokens = {{65, "A", std::nullopt, {}}, {66, "B", -0.5, {}}};
  delta.finish = FinishReason::kLength;
  engine_.EmitDelta(0, delta);
  engine_.Emit(0, "x", FinishReason::kLength, true, 1);
  const Json body = exchange->body();
  ASSERT_EQ(body["choices"].size(), 2u);
  for (const Json& choice : body["choices"]) {
    EXPECT_EQ(choice["prompt_logprobs"][1]["66"]["logprob"], -0.5);
  }
}

TEST_F(RoutesTest, RefusesPromptLogprobsThatWouldFillTheMemory) {
  engine_.max_model_len = 1 << 20;
  const auto send = [this](int length, int top, int n) {
    const Json body = {{"prompt", std::string(length, 'a')}, {"prompt_logprobs", top}, {"n", n}};
    return Send("POST", "/v1/completions", body.dump());
  };
  send(1900, 20, 16);  // 1900 * 21 * 16 * 100 bytes
  EXPECT_EQ(engine_.submitted.size(), 1u);
  for (const auto& exchange : {send(2100, 20, 16), send(40'000, 20, 1), send(1 << 20, 0, 1)}) {
    EXPECT_EQ(exchange->reply.status, 400);
    EXPECT_EQ(exchange->body()["error"]["param"], "prompt_logprobs");
  }
  EXPECT_EQ(engine_.submitted.size(), 1u);
}

// What is kept until the answer is whole has a limit; the request ends, in the engine too.
TEST_F(RoutesTest, LogprobsThatWouldFillTheMemoryEndTheRequest) {
  const auto events_until_end = [this](const char* stream) {
    auto exchange = Send("POST", "/v1/completions",
                         StrCat(R"({"prompt":"a","logprobs":5,"stream":)", stream, "}"));
    TextDelta delta;
    delta.tokens.resize(1000);
    for (TokenInfo& token : delta.tokens) token.top.resize(5);
    int events = 0;
    while (exchange->reply.body.empty() && ++events < 400) {
      engine_.EmitDelta(engine_.submitted.size() - 1, delta);
    }
    if (events < 400) {
      EXPECT_EQ(exchange->reply.status, 400);
      EXPECT_EQ(exchange->body()["error"]["param"], "logprobs");
    }
    return events;
  };
  const int events = events_until_end("false");
  EXPECT_LT(events, 400);
  EXPECT_GT(events, 100);  // 320 bytes a token
  EXPECT_EQ(engine_.cancelled.size(), 1u);
  EXPECT_EQ(events_until_end("true"), 400);  // is sent, not kept
}

TEST_F(RoutesTest, ShowsChatLogprobs) {
  auto exchange =
      Send("POST", "/v1/chat/completions",
           R"({"logprobs":true,"top_logprobs":1,"messages":[{"role":"user","content":"hi"}]})");
  TextDelta delta;
  delta.tokens = {{200, "\xc3\xa9", -1.5, {{67, -0.25, "C"}, {200, -1.5, "\xc3\xa9"}}}};
  delta.finish = FinishReason::kStop;
  delta.last = true;
  engine_.EmitDelta(0, delta);
  const Json entry = exchange->body()["choices"][0]["logprobs"]["content"][0];
  EXPECT_EQ(entry["token"], "\xc3\xa9");
  EXPECT_EQ(entry["bytes"], (Json{0xc3, 0xa9}));
  EXPECT_EQ(entry["logprob"], -1.5);
  ASSERT_EQ(entry["top_logprobs"].size(), 1u);
  EXPECT_EQ(entry["top_logprobs"][0]["token"], "C");
}

TEST_F(RoutesTest, ShowsTheIdsOfAnAnswersTokens) {
  const std::string prompts[][2] = {
      {"/v1/chat/completions", R"("messages":[{"role":"user","content":"hi"}])"},
      {"/v1/completions", R"("prompt":"a")"}};
  for (const auto& [path, prompt] : prompts) {
    for (const char* stream : {"false", "true"}) {
      engine_.submitted.clear();
      auto exchange = Send(
          "POST", path, StrCat(R"({"return_token_ids":true,"stream":)", stream, ",", prompt, "}"));
      TextDelta delta;
      delta.text = "ab";
      delta.tokens.resize(2);
      delta.tokens[0].id = 97;
      delta.tokens[1].id = 98;
      EXPECT_TRUE(engine_.submitted[0].request.prompt_ids);
      delta.prompt_ids = {5, 6};
      engine_.EmitDelta(0, delta);
      delta.prompt_ids.clear();
      delta.text = "c";
      delta.tokens = {{.id = 99}};
      delta.finish = FinishReason::kStop;
      delta.last = true;
      engine_.EmitDelta(0, delta);
      Json ids = Json::array();
      if (stream[0] == 'f') {
        ids = exchange->body()["choices"][0]["token_ids"];
      } else {
        for (const std::string& event : exchange->events()) {
          const Json chunk = Json::parse(event, nullptr, false);
          if (!chunk.is_object() || !chunk["choices"][0].contains("token_ids")) continue;
          for (const Json& id : chunk["choices"][0]["token_ids"]) ids.push_back(id);
        }
      }
      EXPECT_EQ(ids, (Json{97, 98, 99})) << path << stream;
      // Of a chat they stand beside the choices, of a completion in each, as vLLM has it.
      const bool whole = stream[0] == 'f';
      const Json first = whole ? exchange->body() : Json::parse(exchange->events().at(0));
      const bool chat = path.find("chat") != std::string::npos;
      EXPECT_EQ((chat ? first : first["choices"][0]).value("prompt_token_ids", Json()),
                (Json{5, 6}))
          << path << stream;
    }
  }
  auto plain = Send("POST", "/v1/completions", R"({"prompt":"a"})");
  engine_.Emit(engine_.submitted.size() - 1, "b", FinishReason::kStop, true);
  EXPECT_FALSE(plain->body()["choices"][0].contains("token_ids"));
  EXPECT_FALSE(engine_.submitted.back().request.prompt_ids);
}

TEST_F(RoutesTest, AnErrorBeforeTheFirstTextHasItsStatus) {
  for (const char* body : {kChat, kChatStream}) {
    auto exchange = Send("POST", "/v1/chat/completions", body);
    TextDelta delta;
    delta.finish = FinishReason::kError;
    delta.error = InvalidArgument("the prompt is too long", "messages");
    delta.last = true;
    engine_.EmitDelta(engine_.submitted.size() - 1, delta);
    EXPECT_EQ(exchange->reply.status, 400);
    EXPECT_EQ(exchange->param(), "messages");
    EXPECT_TRUE(exchange->streamed.empty());
  }
}

// An engine knows the grammar, and only the server the field that it came in.
TEST_F(RoutesTest, AnErrorOfTheGrammarNamesTheFieldThatSetIt) {
  const std::string body = std::string(kChat).substr(0, std::string_view(kChat).rfind('}'));
  for (const auto& [fields, param] :
       {std::pair(R"(,"structured_outputs":{"regex":"a"}})", "structured_outputs.regex"),
        std::pair(R"(,"guided_json":{}})", "guided_json"), std::pair("}", "tools")}) {
    auto exchange = Send("POST", "/v1/chat/completions", body + fields);
    TextDelta delta;
    delta.finish = FinishReason::kError;
    delta.error = InvalidArgument("it cannot be compiled", "grammar");
    delta.last = true;
    engine_.EmitDelta(engine_.submitted.size() - 1, delta);
    EXPECT_EQ(exchange->reply.status, 400);
    EXPECT_EQ(exchange->param(), param);
  }
}

TEST_F(RoutesTest, APromptOverTheContextHasOpenAisCode) {
  for (const char* body : {kChat, kChatStream}) {
    auto exchange = Send("POST", "/v1/chat/completions", body);
    TextDelta delta;
    delta.finish = FinishReason::kError;
    delta.error = Status(StatusCode::kTooLarge, "the prompt has 70 tokens", "prompt");
    delta.last = true;
    engine_.EmitDelta(engine_.submitted.size() - 1, delta);
    EXPECT_EQ(exchange->reply.status, 400);
    EXPECT_EQ(exchange->body()["error"]["code"], "context_length_exceeded");
    EXPECT_EQ(exchange->body()["error"]["type"], "invalid_request_error");
  }
}

TEST_F(RoutesTest, AnErrorInAStreamEndsItWithAnEvent) {
  auto exchange = Send("POST", "/v1/chat/completions", kChatStream);
  engine_.Emit(0, "Hel");
  TextDelta delta;
  delta.finish = FinishReason::kError;
  delta.error = Status(StatusCode::kInternal, "broken");
  delta.last = true;
  engine_.EmitDelta(0, delta);
  const auto events = exchange->events();
  EXPECT_EQ(Json::parse(events.back())["error"]["message"], "broken");
  EXPECT_EQ(exchange->note, "the stream failed: broken");
  EXPECT_EQ(exchange->fields, (OrderedJson{{"model", "tiny"}, {"error", "broken"}}));
  EXPECT_TRUE(exchange->ended);
  EXPECT_TRUE(exchange->closed);
}

TEST_F(RoutesTest, AFailedChoiceEndsItsRequestAlone) {
  auto exchange = Send("POST", "/v1/completions", R"({"prompt":"a","n":2})");
  TextDelta delta;
  delta.finish = FinishReason::kError;
  engine_.EmitDelta(0, delta);
  EXPECT_EQ(exchange->reply.status, 500);
  EXPECT_EQ(engine_.cancelled, (std::vector<RequestId>{1}));
  engine_.Emit(0, "late", FinishReason::kCancelled, true, 1);  // answered already
}

TEST_F(RoutesTest, AFullQueueSaysWhenToComeBack) {
  engine_.submit_status = Status(StatusCode::kResourceExhausted, "the queue is full");
  auto exchange = Send("POST", "/v1/chat/completions", kChat);
  EXPECT_EQ(exchange->reply.status, 429);
  EXPECT_EQ(exchange->reply.headers.at(0).first, "Retry-After");
  engine_.submit_status = Status(StatusCode::kUnavailable, "draining");
  EXPECT_EQ(Send("POST", "/v1/chat/completions", kChat)->reply.status, 503);
}

TEST_F(RoutesTest, PromptsThatNeverFitTheQueueTogetherAreWrong) {
  engine_.max_queue_tokens = 8;
  const auto send = [this](const std::string& body) {
    return Send("POST", "/v1/completions", body)->reply;
  };
  // A byte is a token. The last prompt needs a place behind the others.
  const HttpReply refused = send(R"({"prompt":["abcd","efgh","i"]})");
  EXPECT_EQ(refused.status, 400);
  EXPECT_EQ(Json::parse(refused.body)["error"]["message"],
            "the prompts before the last have 8 tokens or more, those of each answer counted, and "
            "fill the queue of this server, which takes 8 (--max-queue-tokens); send some of the "
            "prompts in another request");
  EXPECT_EQ(send(R"({"prompt":[[1,2,3,4],[5]],"n":2})").status, 400);
  EXPECT_TRUE(engine_.submitted.empty());
  // Where waiting helps it is a 429, for one that is longer than the queue, too.
  engine_.submit_status = Status(StatusCode::kResourceExhausted, "the queue is full");
  EXPECT_EQ(send(R"({"prompt":["abcd","efg","hijklmnopq"]})").status, 429);
  EXPECT_EQ(send(R"({"prompt":"abcdefghijk"})").status, 429);
}

TEST_F(RoutesTest, ARefusedPromptCancelsTheOthersAndSendsNothingOfThem) {
  engine_.submit_status = Status(StatusCode::kResourceExhausted, "the queue is full");
  engine_.submits_before_failure = 2;
  engine_.on_submit = [this](size_t i) { engine_.Emit(i, "early"); };
  auto exchange = Send("POST", "/v1/completions", R"({"prompt":["a","b","c"],"stream":true})");
  EXPECT_EQ(exchange->reply.status, 429);
  EXPECT_TRUE(exchange->streamed.empty());
  EXPECT_EQ(engine_.cancelled, (std::vector<RequestId>{1, 2}));
}

TEST_F(RoutesTest, EventsWithinSubmitAreKept) {
  engine_.on_submit = [this](size_t i) { engine_.Emit(i, "x", FinishReason::kStop, true); };
  auto stream = Send("POST", "/v1/completions", R"({"prompt":["a","b"],"stream":true})");
  EXPECT_EQ(stream->events().back(), "[DONE]");
  auto whole = Send("POST", "/v1/completions", R"({"prompt":["a","b"]})");
  EXPECT_EQ(whole->body()["choices"][1]["text"], "x");
}

TEST_F(RoutesTest, ADisconnectCancelsEveryPrompt) {
  auto exchange = Send("POST", "/v1/completions", R"({"prompt":["a","b"]})");
  exchange->disconnect();
  EXPECT_EQ(engine_.cancelled, (std::vector<RequestId>{1, 2}));
  engine_.Emit(0, "", FinishReason::kCancelled, true);
  EXPECT_FALSE(exchange->replied);
}

TEST_F(RoutesTest, ASlowReaderIsCancelled) {
  auto exchange = Send("POST", "/v1/chat/completions", kChatStream);
  exchange->slow = true;
  engine_.Emit(0, "Hel");
  EXPECT_EQ(engine_.cancelled, (std::vector<RequestId>{1}));
}

TEST_F(RoutesTest, AShutdownIs503) {
  auto exchange = Send("POST", "/v1/chat/completions", kChat);
  engine_.Emit(0, "", FinishReason::kCancelled, true);
  EXPECT_EQ(exchange->reply.status, 503);
}

TEST_F(RoutesTest, KeysOpenEveryPathButHealthAndThePageAndGiveEachItsSalt) {
  UseKeys("# ours\nsecret-one\n\n  secret-two \n");
  for (const char* path : {"/v1/models", "/metrics", "/version", "/openapi.json", "/none"}) {
    EXPECT_EQ(Send("GET", path)->reply.status, 401) << path;
    EXPECT_EQ(Send("GET", path, "", "Bearer secret-onf")->reply.status, 401) << path;
  }
  for (const char* path : {"/health", "/live", "/ready", "/", "/web/app.js"}) {
    EXPECT_EQ(Send("GET", path)->reply.status, 200) << path;
  }
  EXPECT_EQ(Send("GET", "/v1/models", "", "Bearer ")->reply.status, 401);
  EXPECT_EQ(Send("GET", "/v1/models", "", "bearer secret-two")->reply.status, 200);
  Send("POST", "/v1/chat/completions", kChat, "Bearer secret-one");
  Send("POST", "/v1/chat/completions", kChat, "Bearer secret-two");
  const std::string first = engine_.submitted.at(0).request.cache_salt;
  const std::string second = engine_.submitted.at(1).request.cache_salt;
  EXPECT_FALSE(first.empty());
  EXPECT_NE(first, second);
  EXPECT_EQ(first.find("secret"), std::string::npos);
}

TEST_F(RoutesTest, TheEngineLearnsWhoAsks) {
  client_ = "somebody";
  for (const char* const path : {"/v1/chat/completions", "/v1/completions"}) {
    Send("POST", path, path == std::string("/v1/completions") ? R"({"prompt":["a","b"]})" : kChat);
  }
  ASSERT_EQ(engine_.submitted.size(), 3u);
  for (const auto& one : engine_.submitted) EXPECT_EQ(one.request.client, "somebody");
}

TEST_F(RoutesTest, PathsAndMethods) {
  EXPECT_EQ(Send("GET", "/nowhere")->reply.status, 404);
  EXPECT_EQ(Send("GET", "/nowhere")->body()["error"]["message"],
            "there is no path \"/nowhere\"; this server has the model \"tiny\", and GET "
            "/openapi.json lists its paths");
  EXPECT_EQ(Send("POST", "/health")->reply.status, 405);
  for (const auto& [wrong, right, verb] :
       {std::tuple("/chat/completions", "/v1/chat/completions", "should end"),
        std::tuple("/embeddings", "/v1/embeddings", "should end"),
        std::tuple("/v1/v1/responses", "/v1/responses", "should not end")}) {
    const auto exchange = Send("POST", wrong);
    EXPECT_EQ(exchange->reply.status, 404);
    EXPECT_THAT(exchange->body()["error"]["message"].get<std::string>(),
                StartsWith(StrCat("there is no path \"", wrong, "\", but there is \"", right,
                                  "\", so the base URL that the client is given ", verb,
                                  " with /v1; this server has the model \"tiny\"")));
  }
  EXPECT_EQ(Send("GET", "/v1/")->body()["error"]["message"],
            "there is no path \"/v1/\"; this server has the model \"tiny\", and GET "
            "/openapi.json lists its paths");
  auto wrong = Send("GET", "/v1/chat/completions");
  EXPECT_EQ(wrong->reply.status, 405);
  EXPECT_EQ(wrong->reply.headers.at(0), (std::pair<std::string, std::string>{"Allow", "POST"}));
  EXPECT_EQ(Send("GET", "/v1/models/tiny")->body()["id"], "tiny");
  EXPECT_EQ(Send("GET", "/v1/models/t%69ny")->body()["id"], "tiny");
  EXPECT_EQ(Send("GET", "/v1/models/other")->reply.status, 404);
  EXPECT_EQ(Send("GET", "/v1/models/")->reply.status, 404);
  EXPECT_EQ(Send("GET", "/v1/models")->body()["data"][0]["id"], "tiny");
  const Json version = Send("GET", "/version")->body();
  EXPECT_EQ(version["name"], "sluice");
  EXPECT_EQ(version["backends"], Json::array({"cpu"}));
  EXPECT_FALSE(version["commit"].get<std::string>().empty());
  EXPECT_FALSE(version["compiler"].get<std::string>().empty());
}

TEST_F(RoutesTest, AnUnknownPathIsRefusedInTheFormOfItsApi) {
  const Json ollama = Send("POST", "/api/pull")->body();
  ASSERT_TRUE(ollama["error"].is_string()) << ollama;
  EXPECT_THAT(ollama["error"].get<std::string>(), StartsWith("there is no path \"/api/pull\""));
  for (const char* path : {"/v1/messages/batches", "/messages", "/v1/v1/messages"}) {
    const Json anthropic = Send("POST", path)->body();
    EXPECT_EQ(anthropic["type"], "error") << path;
    EXPECT_EQ(anthropic["error"]["type"], "not_found_error") << path;
  }
  EXPECT_TRUE(Send("POST", "/v2/chat")->body()["message"].is_string());
  EXPECT_EQ(Send("POST", "/v1/nowhere")->body()["error"]["type"], "invalid_request_error");
}

// Whose text work stops the requests behind it, as that of a text worker does.
TEST_F(RoutesTest, HealthFollowsTheHttpWorkers) {
  for (const char* path : {"/health", "/ready"}) {
    http_.oldest_work_ms = 10'000;
    EXPECT_EQ(Send("GET", path)->reply.status, 200);
    http_.oldest_work_ms = 10'001;
    const auto stuck = Send("GET", path);
    EXPECT_EQ(stuck->reply.status, 503);
    EXPECT_EQ(stuck->body()["error"]["message"],
              "an HTTP worker has been at one request for 10 s; others may wait behind it");
    EXPECT_EQ(Send("GET", "/live")->reply.status, 200);
  }
}

TEST_F(RoutesTest, HealthFollowsTheEngine) {
  EXPECT_EQ(Send("GET", "/health")->reply.status, 200);
  engine_.health = {true, false, "draining"};
  EXPECT_EQ(Send("GET", "/health")->reply.status, 200);
  EXPECT_EQ(Send("GET", "/ready")->reply.status, 503);
  engine_.health = {false, false, "no step has finished for 31 s"};
  EXPECT_EQ(Send("GET", "/health")->reply.status, 503);
  EXPECT_EQ(Send("GET", "/live")->reply.status, 200);
}

// A stop is told at once, before the engines hear of it: answers close their connections already.
TEST_F(RoutesTest, AServerThatStopsIsNotReady) {
  EXPECT_EQ(Send("GET", "/ready")->reply.status, 200);
  models_->BeginStop();
  EXPECT_EQ(Send("GET", "/ready")->reply.status, 503);
  EXPECT_EQ(Send("GET", "/health")->reply.status, 200);
}

TEST_F(RoutesTest, MetricsShowTheEnginesAndRequests) {
  routes_->Ended({.method = "GET", .path = "/health", .status = 200});
  routes_->Ended({.method = "GET", .path = "/a\"b", .status = 404});
  const std::string text = Send("GET", "/metrics")->reply.body;
  EXPECT_NE(text.find("vllm:num_requests_running 0\n"), std::string::npos);
  EXPECT_NE(text.find("sluice_http_requests_total{path=\"/health\",status=\"200\"} 1\n"),
            std::string::npos);
  EXPECT_NE(text.find("sluice_http_requests_total{path=\"other\",status=\"404\"} 1\n"),
            std::string::npos);
}

TEST_F(RoutesTest, ARequestHasATimelineThatBelongsToItsKey) {
  UseKeys("first\nsecond\n");
  Send("POST", "/v1/chat/completions", kChat, "Bearer first");
  Timeline* const timeline = engine_.submitted.at(0).request.timeline.get();
  ASSERT_NE(timeline, nullptr);
  timeline->prompt_tokens = 12;
  const std::string path = "/v1/requests/the-id/timeline";
  EXPECT_EQ(Send("GET", path, "", "Bearer first")->body()["timelines"][0]["prompt_tokens"], 12);
  EXPECT_EQ(Send("GET", path, "", "Bearer second")->reply.status, 404);
  EXPECT_EQ(Send("GET", "/v1/requests/the-id", "", "Bearer first")->reply.status, 404);
}

TEST_F(RoutesTest, TextPaths) {
  EXPECT_EQ(Send("POST", "/tokenize", R"({"content":"AB"})")->body()["tokens"], (Json{65, 66}));
  EXPECT_EQ(
      Send("POST", "/tokenize", R"({"prompt":"AB","with_pieces":true})")->body()["token_strs"],
      (Json{"A", "B"}));
  EXPECT_EQ(Send("POST", "/detokenize", R"({"tokens":[65,66]})")->body()["content"], "AB");
  EXPECT_EQ(Send("POST", "/detokenize", R"({"tokens":[256]})")->param(), "tokens");
  EXPECT_EQ(Send("POST", "/detokenize", R"({})")->param(), "tokens");
  EXPECT_EQ(Send("POST", "/tokenize", R"({})")->param(), "prompt");
  engine_.tokenizer = {.eos_token = "</s>", .chat_template = "{{ messages }}"};
  EXPECT_EQ(Send("GET", "/tokenizer_info")->body(), (Json{{"bos_token", nullptr},
                                                          {"eos_token", "</s>"},
                                                          {"unk_token", nullptr},
                                                          {"pad_token", nullptr},
                                                          {"chat_template", "{{ messages }}"},
                                                          {"model_max_length", 64}}));
  EXPECT_EQ(Send("POST", "/apply-template", kChat)->body()["prompt"],
            R"([{"role":"user","content":"hi"}])");
  EXPECT_EQ(Send("POST", "/apply-template", R"({"messages":[]})")->param(), "messages");
}

TEST_F(RoutesTest, TextWorkEndsWhenItsClientLeaves) {
  engine_.max_model_len = 1 << 20;  // so that prompt_logprobs need the prompt's tokens
  engine_.on_text = [this](const auto&) { exchange_->disconnect(); };
  const std::string chat = kChat;
  const Json counted = {{"prompt", std::string(2000, 'a')}, {"prompt_logprobs", 20}, {"n", 16}};
  const std::pair<const char*, std::string> calls[] = {
      {"/tokenize", R"({"content":"AB"})"},
      {"/detokenize", R"({"tokens":[65,66]})"},
      {"/apply-template", chat},
      // Before the engine has the request.
      {"/v1/completions", R"({"prompt":[65,66],"echo":true})"},
      {"/v1/completions", counted.dump()},
      {"/v1/chat/completions", R"({"prompt_logprobs":20,)" + chat.substr(1)},
  };
  for (const auto& [path, body] : calls) {
    const auto exchange = Send("POST", path, body);
    ASSERT_TRUE(exchange->replied) << body;
    EXPECT_EQ(exchange->body()["error"]["message"], "given up") << body;
  }
  EXPECT_TRUE(engine_.submitted.empty());
}

TEST_F(RoutesTest, TextWorkDoesNotBeginForAClientThatHasLeft) {
  gone_ = true;
  engine_.on_text = [](const auto&) { FAIL(); };
  for (const char* path : {"/tokenize", "/detokenize", "/apply-template"}) {
    EXPECT_FALSE(Send("POST", path, "{}")->replied) << path;
  }
}

TEST_F(RoutesTest, ThePageRunsItsOwnScriptsAlone) {
  for (const WebFile& file : WebFiles()) {
    const HttpReply reply = Send("GET", std::string(file.path))->reply;
    EXPECT_EQ(reply.status, 200);
    EXPECT_EQ(reply.content_type, file.content_type);
    EXPECT_EQ(reply.body, file.bytes);
    std::string policy;
    for (const auto& [name, value] : reply.headers) {
      if (name == "Content-Security-Policy") policy = value;
    }
    EXPECT_THAT(policy, AllOf(HasSubstr("default-src 'none'"), HasSubstr("script-src 'self';"),
                              HasSubstr("connect-src 'self'"), Not(HasSubstr("unsafe"))));
  }
  EXPECT_EQ(Send("GET", "/web/none.js")->reply.status, 404);
  EXPECT_EQ(Send("GET", "/web/")->reply.status, 404);
}

TEST_F(RoutesTest, TokensAreCountedWhileAnswersRun) {
  auto exchange = Send("POST", "/v1/chat/completions", kChat);
  TextDelta delta;
  delta.text = "ab";
  delta.tokens.resize(2);
  engine_.submitted.at(0).sink(std::move(delta));
  EXPECT_NE(Send("GET", "/metrics")->reply.body.find("\nsluice_generated_tokens_total 2\n"),
            std::string::npos);
}

TEST_F(RoutesTest, TheOpenApiDocumentHasEveryPath) {
  const Json document = Send("GET", "/openapi.json")->body();
  for (const char* path : {"/v1/chat/completions",
                           "/v1/chat/completions/control",
                           "/v1/completions",
                           "/v1/embeddings",
                           "/v1/rerank",
                           "/v1/score",
                           "/v1/classify",
                           "/v1/messages",
                           "/v1/messages/count_tokens",
                           "/api/chat",
                           "/api/generate",
                           "/api/show",
                           "/api/tags",
                           "/api/ps",
                           "/api/version",
                           "/completion",
                           "/completions",
                           "/infill",
                           "/props",
                           "/slots",
                           "/v1/decisions",
                           "/v1/responses",
                           "/v1/responses/{id}",
                           "/v1/files",
                           "/v1/files/{id}",
                           "/v1/files/{id}/content",
                           "/v1/batches",
                           "/v1/batches/{id}",
                           "/v1/batches/{id}/cancel",
                           "/api/embed",
                           "/api/embeddings",
                           "/v2/embed",
                           "/v2/rerank",
                           "/rerank",
                           "/v1/reranking",
                           "/reranking",
                           "/v1/responses/{id}/cancel",
                           "/v1/streams",
                           "/v1/models",
                           "/v1/models/{model}",
                           "/v1/models/{model}/load",
                           "/v1/models/{model}/unload",
                           "/models",
                           "/models/load",
                           "/models/unload",
                           "/tokenize",
                           "/detokenize",
                           "/tokenizer_info",
                           "/v1/requests/{id}/timeline",
                           "/apply-template",
                           "/health",
                           "/live",
                           "/ready",
                           "/metrics",
                           "/version",
                           "/openapi.json",
                           "/"}) {
    EXPECT_TRUE(document["paths"].contains(path)) << path;
  }
}

TEST_F(RoutesTest, TheOpenApiDocumentHasEveryField) {
  const Json document = Send("GET", "/openapi.json")->body();
  EXPECT_EQ(document.dump().find('@'), std::string::npos);  // a number that was not filled in
  const Json& chat = document["components"]["schemas"]["ChatRequest"]["properties"];
  EXPECT_EQ(chat["n"]["maximum"], limits::kChoicesMax);
  ForEachSamplingField(
      [&chat](const SamplingField& field, const auto& value) {
        const Json& schema = chat[std::string(field.name)];
        EXPECT_EQ(schema["type"], sizeof(*value) == sizeof(int) ? "integer" : "number");
        EXPECT_EQ(schema["minimum"], field.range.low) << field.name;
        EXPECT_EQ(schema["maximum"], field.range.high) << field.name;
      },
      Sampling());
  EXPECT_EQ(chat["stop"]["oneOf"][1]["maxItems"], limits::kStopsMax);
  EXPECT_EQ(chat["messages"]["maxItems"], kMessagesMax);
  const OrderedJson empty = OrderedJson::object();
  Fields fields(empty);
  ApiCall call;
  Request request;
  const ModelFacts model{"tiny", 256};
  ReadModel(&fields, model);
  ReadShared(&fields, model, std::nullopt, &call, &request);
  for (const char* schema : {"ChatRequest", "CompletionRequest"}) {
    const Json& properties = document["components"]["schemas"][schema]["properties"];
    for (const std::string& name : fields.known()) {
      EXPECT_TRUE(properties.contains(name)) << schema << " " << name;
    }
  }
}

}  // namespace
}  // namespace sluice::server
