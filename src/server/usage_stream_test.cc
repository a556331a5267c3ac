// stream_options.include_usage in each form, for each way in which a stream ends.
#include <gtest/gtest.h>

#include "base/str_cat.h"
#include "server/fake_engine.h"
#include "server/fake_exchange.h"
#include "server/routes.h"

namespace sluice::server {
namespace {

class UsageStreamTest : public ::testing::Test {
 protected:
  std::shared_ptr<FakeExchange> Send(const std::string& fields, const char* path) {
    HttpRequest request;
    request.method = "POST";
    request.path = path;
    const bool chat = request.path == "/v1/chat/completions";
    request.body =
        StrCat("{", chat ? R"("messages":[{"role":"user","content":"hi"}])" : R"("prompt":"hi")",
               R"(,"stream":true)", fields, "}");
    auto exchange = std::make_shared<FakeExchange>();
    EXPECT_FALSE(routes_.Admit(&request).has_value());
    routes_.Handle(std::move(request), exchange);
    return exchange;
  }
  // Events that have usage, and whether each other event says null of it.
  struct Seen {
    int with_usage = 0, with_null = 0, without = 0;
  };
  static Seen Count(const FakeExchange& exchange) {
    Seen seen;
    for (const std::string& event : exchange.events()) {
      if (event == "[DONE]") continue;
      const Json json = Json::parse(event);
      if (json.contains("error")) continue;
      if (!json.contains("usage")) {
        ++seen.without;
      } else if (json["usage"].is_null()) {
        ++seen.with_null;
      } else {
        ++seen.with_usage;
        EXPECT_TRUE(json["choices"].empty());
        EXPECT_EQ(json["usage"]["completion_tokens"], 2);
      }
    }
    return seen;
  }

  FakeEngine engine_;
  Models models_{engine_};
  Routes routes_{models_, ApiKeys(), [] { return HttpState{.connections = 1}; }};
};

constexpr const char* kPaths[] = {"/v1/chat/completions", "/v1/completions"};
constexpr const char* kWith = R"(,"stream_options":{"include_usage":true})";
constexpr const char* kWithout[] = {"", R"(,"stream_options":null)", R"(,"stream_options":{})",
                                    R"(,"stream_options":{"include_usage":false})",
                                    R"(,"stream_options":{"include_usage":null})"};

TEST_F(UsageStreamTest, TrueAddsOneChunkBehindAllOthers) {
  for (const char* path : kPaths) {
    auto exchange = Send(kWith, path);
    engine_.Emit(engine_.submitted.size() - 1, "a", FinishReason::kStop, true);
    const Seen seen = Count(*exchange);
    EXPECT_EQ(seen.with_usage, 1) << exchange->streamed;
    EXPECT_EQ(seen.without, 0) << exchange->streamed;
    EXPECT_GE(seen.with_null, 1) << exchange->streamed;
    const auto events = exchange->events();
    EXPECT_EQ(events.back(), "[DONE]");
    EXPECT_FALSE(Json::parse(events.at(events.size() - 2))["usage"].is_null());
  }
}

TEST_F(UsageStreamTest, FalseNullAndAbsentAreNoUsage) {
  for (const char* path : kPaths) {
    for (const char* fields : kWithout) {
      auto exchange = Send(fields, path);
      engine_.Emit(engine_.submitted.size() - 1, "a", FinishReason::kStop, true);
      const Seen seen = Count(*exchange);
      EXPECT_EQ(seen.with_usage + seen.with_null, 0) << fields << exchange->streamed;
      EXPECT_EQ(exchange->events().back(), "[DONE]");
    }
  }
}

TEST_F(UsageStreamTest, SeveralAnswersHaveOneUsage) {
  for (const char* path : kPaths) {
    auto exchange = Send(StrCat(kWith, ",\"n\":2"), path);
    const size_t request = engine_.submitted.size() - 1;
    engine_.Emit(request, "a", FinishReason::kStop, false, 1);
    EXPECT_EQ(Count(*exchange).with_usage, 0);
    engine_.Emit(request, "b", FinishReason::kLength, true, 0);
    EXPECT_EQ(Count(*exchange).with_usage, 1) << exchange->streamed;
  }
}

TEST_F(UsageStreamTest, AnErrorEndsTheStreamWithoutUsage) {
  for (const char* path : kPaths) {
    for (const char* fields : {kWith, kWithout[0]}) {
      auto exchange = Send(fields, path);
      engine_.Emit(engine_.submitted.size() - 1, "a");
      TextDelta delta;
      delta.finish = FinishReason::kError;
      delta.error = Status(StatusCode::kInternal, "broken");
      delta.last = true;
      delta.usage.completion_tokens = 2;
      engine_.EmitDelta(engine_.submitted.size() - 1, delta);
      EXPECT_EQ(Count(*exchange).with_usage, 0) << exchange->streamed;
      EXPECT_TRUE(Json::parse(exchange->events().back()).contains("error"));
    }
  }
}

TEST_F(UsageStreamTest, NothingFollowsAClientThatHasGone) {
  for (const char* path : kPaths) {
    auto exchange = Send(kWith, path);
    const size_t request = engine_.submitted.size() - 1;
    engine_.Emit(request, "a");
    exchange->disconnect();
    const std::string before = exchange->streamed;
    engine_.Emit(request, "", FinishReason::kCancelled, true);
    EXPECT_EQ(exchange->streamed, before);
    EXPECT_EQ(Count(*exchange).with_usage, 0);
  }
}

// Of an answer whose drafts were verified by rejection; of others usage says nothing of it.
TEST_F(UsageStreamTest, SaysHowDraftsWereVerified) {
  for (const bool rejection : {false, true}) {
    engine_.verified_by_rejection = rejection;
    const auto exchange = Send(kWith, "/v1/completions");
    engine_.Emit(engine_.submitted.size() - 1, "ab", FinishReason::kStop, true);
    bool told = false;
    for (const std::string& event : exchange->events()) {
      if (event == "[DONE]") continue;
      const Json json = Json::parse(event);
      if (!json.contains("usage") || json["usage"].is_null()) continue;
      const Json& details = json["usage"]["completion_tokens_details"];
      told = true;
      EXPECT_EQ(details.contains("verified_by_rejection"), rejection);
      if (rejection) {
        EXPECT_EQ(details["verified_by_rejection"], true);
      }
    }
    EXPECT_TRUE(told);
  }
}

// What usage may say stands in the OpenAPI document.
TEST_F(UsageStreamTest, TheDocumentHasWhatItSays) {
  HttpRequest request;
  request.method = "GET";
  request.path = "/openapi.json";
  auto exchange = std::make_shared<FakeExchange>();
  EXPECT_FALSE(routes_.Admit(&request).has_value());
  routes_.Handle(std::move(request), exchange);
  const Json details = exchange->body()["components"]["schemas"]["Usage"]["properties"]
                                       ["completion_tokens_details"]["properties"];
  EXPECT_EQ(details["verified_by_rejection"]["type"], "boolean");
}

}  // namespace
}  // namespace sluice::server
