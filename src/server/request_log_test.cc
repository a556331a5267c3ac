#include "server/request_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "server/activity_log.h"
#include "server/fake_engine.h"

namespace sluice::server {
namespace {

ExchangeRecord Record(const char* method, int status, const char* note = "") {
  return {method, "/v1/completions", "run-7", "127.0.0.1", status, 431.4, note, nullptr};
}

std::string Logged(RequestsLogged which, const ExchangeRecord& record) {
  RequestLog log(which);
  testing::internal::CaptureStderr();
  log.Add(record, "/v1/completions");
  return testing::internal::GetCapturedStderr();
}

TEST(RequestLogTest, ALineSaysWhoAskedWhatAndHowItWent) {
  EXPECT_EQ(RequestLine(Record("POST", 200, "12 prompt tokens, 30 tokens, stop")),
            "POST /v1/completions 200 in 431 ms: 12 prompt tokens, 30 tokens, stop; id run-7, from "
            "127.0.0.1");
  EXPECT_EQ(RequestLine(Record("POST", kClientLeft)),
            "POST /v1/completions 499 in 431 ms, the client left; id run-7, from 127.0.0.1");
  ExchangeRecord none;
  none.status = 400;
  none.note = "this is not HTTP";
  EXPECT_EQ(RequestLine(none), "what is no request 400 in 0 ms: this is not HTTP");
  ExchangeRecord longest = Record("POST", 200);
  longest.path = std::string(100'000, 'x');
  EXPECT_LT(RequestLine(longest).size(), 1000u);
}

TEST(RequestLogTest, WhatALineSaysIsThereAsFieldsToo) {
  ExchangeRecord record = Record("POST", 200, "12 prompt tokens, 30 tokens, stop");
  record.fields = {{"model", "tiny"}, {"completion_tokens", 30}};
  EXPECT_EQ(RequestFields(record), (OrderedJson{{"status", 200},
                                                {"duration_ms", 431.4},
                                                {"method", "POST"},
                                                {"path", "/v1/completions"},
                                                {"request_id", "run-7"},
                                                {"client", "127.0.0.1"},
                                                {"model", "tiny"},
                                                {"completion_tokens", 30}}));
  record = Record("POST", 400, "no\x1b");
  EXPECT_EQ(RequestFields(record)["error"], "no\\x1b");
  record.path = std::string(100'000, 'x');
  EXPECT_LT(DumpJson(RequestFields(record)).size(), 1000u);
  EXPECT_EQ(RequestFields(ExchangeRecord()).size(), 2u);
}

TEST(RequestLogTest, TheLastErrorsAreKept) {
  RequestLog log(RequestsLogged::kNone);
  log.Add(Record("POST", 200, "well"), "/v1/completions");
  EXPECT_TRUE(log.RecentErrors().empty());
  for (int i = 0; i < 40; ++i) log.Add(Record("POST", 400 + i, "a\nb"), "/v1/completions");
  const OrderedJson errors = log.RecentErrors();
  ASSERT_EQ(errors.size(), 32u);
  EXPECT_EQ(errors[0]["status"], 439);
  EXPECT_EQ(errors[31]["status"], 408);
  EXPECT_EQ(errors[0]["message"], "a\\x0ab");
  EXPECT_EQ(errors[0]["path"], "/v1/completions");
}

TEST(RequestLogTest, LevelsFollowTheStatus) {
  EXPECT_NE(Logged(RequestsLogged::kAll, Record("POST", 200)).find(" info "), std::string::npos);
  EXPECT_NE(Logged(RequestsLogged::kAll, Record("POST", 400)).find(" warning "), std::string::npos);
  EXPECT_NE(Logged(RequestsLogged::kAll, Record("POST", 503)).find(" error "), std::string::npos);
  EXPECT_NE(Logged(RequestsLogged::kAll, Record("POST", kClientLeft)).find(" info "),
            std::string::npos);
  EXPECT_NE(Logged(RequestsLogged::kAll, Record("GET", 404)).find(" warning "), std::string::npos);
}

TEST(RequestLogTest, WhatWasNotAskedForHasNoLine) {
  EXPECT_EQ(Logged(RequestsLogged::kAll, Record("GET", 200)), "");
  EXPECT_EQ(Logged(RequestsLogged::kErrors, Record("POST", 200)), "");
  EXPECT_NE(Logged(RequestsLogged::kErrors, Record("POST", 400)), "");
  EXPECT_EQ(Logged(RequestsLogged::kNone, Record("POST", 500)), "");
  EXPECT_EQ(ParseRequestsLogged("some").status().field(), "log-requests");
}

TEST(RequestLogTest, CountsByPathAndStatus) {
  RequestLog log(RequestsLogged::kNone);
  for (const int status : {200, 200, 400}) log.Add(Record("POST", status), "/v1/completions");
  const std::string text = log.Metrics();
  for (const char* line :
       {"sluice_http_requests_total{path=\"/v1/completions\",status=\"200\"} 2\n",
        "sluice_http_requests_total{path=\"/v1/completions\",status=\"400\"} 1\n"}) {
    EXPECT_NE(text.find(line), std::string::npos) << text;
  }
}

TEST(ActivityLogTest, ALineHasRatesAndTheShareOfTheCache) {
  EngineInfo info;
  info.running = 3;
  info.waiting = 1;
  info.kv_blocks = 10;
  info.kv_free_blocks = 7;
  EXPECT_EQ(ActivityLine(info, 8200, 1314, 10.0),
            "3 running, 1 waiting; 820.0 prompt tokens/s, 131.4 generated tokens/s; KV cache 30 % "
            "in use");
}

// A prompt that is computed for long has generated nothing, and none of its requests has ended.
TEST(ActivityLogTest, ALongPrefillIsSpeed) {
  FakeEngine engine;
  TokenTotals totals;
  std::atomic<int64_t> computed = 0;
  std::promise<std::string> said;
  std::atomic<bool> first = true;
  ActivityLog log(
      [&] {
        EngineInfo info = engine.Info();
        info.running = 1;
        info.prefill_tokens = computed += 1 << 20;
        return info;
      },
      totals, std::chrono::milliseconds(1),
      [&](const std::string& line) {
        if (first.exchange(false)) said.set_value(line);
      });
  const std::string line = said.get_future().get();
  EXPECT_THAT(line, ::testing::MatchesRegex(
                        "1 running, 0 waiting; [1-9][0-9.]+ prompt tokens/s, 0.0 generated "
                        "tokens/s; KV cache .*"));
}

TEST(ActivityLogTest, SpeaksWhileThereIsWork) {
  FakeEngine engine;  // in which nothing runs
  TokenTotals totals;
  std::promise<std::string> said;
  std::atomic<bool> first = true;
  ActivityLog log([&] { return engine.Info(); }, totals, std::chrono::milliseconds(1),
                  [&](const std::string& line) {
                    if (first.exchange(false)) said.set_value(line);
                  });
  totals.generated = 5;
  EXPECT_TRUE(said.get_future().get().starts_with("0 running, 0 waiting; "));
}

}  // namespace
}  // namespace sluice::server
