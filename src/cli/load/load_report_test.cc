#include "cli/load/load_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace sluice::load {
namespace {

using ::testing::HasSubstr;
using End = Outcome::End;

// A completed request; times in milliseconds.
Outcome Completed(int64_t sent, const std::vector<int64_t>& chunks, int output_tokens) {
  Outcome outcome;
  outcome.end = End::kCompleted;
  outcome.due_us = outcome.sent_us = sent * 1000;
  for (const int64_t chunk : chunks) outcome.chunk_us.push_back(chunk * 1000);
  outcome.last_us = outcome.chunk_us.back();
  outcome.input_tokens = 10;
  outcome.output_tokens = output_tokens;
  return outcome;
}

Outcome Failed(const char* what, const char* detail) {
  Outcome outcome;
  outcome.end = End::kFailed;
  outcome.failure = what;
  outcome.detail = detail;
  outcome.sent_us = 1000000;
  return outcome;
}

TEST(PercentileTest, LiesOnTheLineBetweenTwoValues) {
  // As numpy.percentile gives them.
  EXPECT_EQ(Percentile({}, 50), 0);
  EXPECT_EQ(Percentile({7}, 99), 7);
  EXPECT_DOUBLE_EQ(Percentile({1, 2, 3, 4}, 50), 2.5);
  EXPECT_DOUBLE_EQ(Percentile({1, 2, 3, 4}, 99), 3.97);
  EXPECT_DOUBLE_EQ(Percentile({1, 2, 3, 4}, 100), 4);
  EXPECT_DOUBLE_EQ(Percentile({10, 20, 70}, 25), 15);
}

TEST(TimesTest, MeanMedianDeviationAndP99) {
  const Times times = TimesOf({4, 1, 3, 2});
  EXPECT_DOUBLE_EQ(times.mean, 2.5);
  EXPECT_DOUBLE_EQ(times.median, 2.5);
  EXPECT_DOUBLE_EQ(times.deviation, std::sqrt(1.25));
  EXPECT_DOUBLE_EQ(times.p99, 3.97);
  EXPECT_EQ(TimesOf({}).p99, 0);
}

TEST(GoodputTest, LimitsByName) {
  const auto goodput = ParseGoodput({"ttft:500", "e2el:2000.5"});
  ASSERT_TRUE(goodput.ok()) << goodput.status().message();
  EXPECT_EQ(goodput->ttft_ms, 500);
  EXPECT_FALSE(goodput->tpot_ms);
  EXPECT_EQ(goodput->e2el_ms, 2000.5);
  EXPECT_TRUE(ParseGoodput({})->empty());
  for (const char* wrong : {"", "ttft", "ttft:", "ttft:-1", "ttft:inf", "ttft:nan", "ttft:5ms",
                            "itl:5", "ttft:5:6", "model.gguf"}) {
    EXPECT_FALSE(ParseGoodput({wrong}).ok()) << wrong;
  }
  EXPECT_FALSE(ParseGoodput({"ttft:5", "ttft:6"}).ok());
}

TEST(LoadReportTest, TimesAndRatesOfCompletedRequests) {
  const std::vector<Outcome> outcomes = {Completed(1000, {1100, 1200, 1400}, 4),
                                         Completed(1500, {1800}, 1), Failed("HTTP 429", "full")};
  const LoadReport report = ReportOf(outcomes, {4, 2, 4}, {});
  EXPECT_EQ(report.completed, 2);
  EXPECT_EQ(report.failed, 1);
  EXPECT_DOUBLE_EQ(report.duration_s, 0.8);
  EXPECT_EQ(report.input_tokens, 20);
  EXPECT_EQ(report.output_tokens, 5);
  EXPECT_EQ(report.short_answers, 1);
  EXPECT_DOUBLE_EQ(report.ttft.mean, 200);
  EXPECT_DOUBLE_EQ(report.tpot.mean, 100);  // 300 ms for the 3 tokens behind the first
  EXPECT_DOUBLE_EQ(report.itl.mean, 150);
  EXPECT_DOUBLE_EQ(report.e2el.median, 350);
  EXPECT_FALSE(report.good);
}

TEST(LoadReportTest, PeaksAreOfASecondAndOfAnInstant) {
  // The second one starts as the first one ends: one at a time. The third runs beside both.
  const std::vector<Outcome> outcomes = {
      Completed(0, {100, 500}, 6), Completed(500, {900, 1100}, 2), Completed(400, {700, 1500}, 2)};
  const LoadReport report = ReportOf(outcomes, {6, 2, 2}, {});
  EXPECT_EQ(report.concurrent_peak, 2);
  EXPECT_DOUBLE_EQ(report.output_tokens_peak, 8);  // 6, and one each of the others
}

TEST(LoadReportTest, GoodputIsTheShareOfAllThatWereSent) {
  const std::vector<Outcome> outcomes = {Completed(0, {100, 500}, 5), Completed(0, {300, 400}, 2),
                                         Completed(0, {50}, 1), Failed("HTTP 429", "full")};
  const auto good = [&](const std::vector<std::string>& limits) {
    return *ReportOf(outcomes, {5, 2, 1, 4}, *ParseGoodput(limits)).good;
  };
  EXPECT_EQ(good({"ttft:100"}), 2);
  EXPECT_EQ(good({"ttft:99.9"}), 1);
  EXPECT_EQ(good({"tpot:99"}), 1);  // a single token has no time per further one
  EXPECT_EQ(good({"tpot:100"}), 3);
  EXPECT_EQ(good({"e2el:400", "ttft:200"}), 1);
  const LoadReport report = ReportOf(outcomes, {5, 2, 1, 4}, *ParseGoodput({"ttft:100"}));
  EXPECT_DOUBLE_EQ(report.GoodShare(), 0.5);
}

TEST(LoadReportTest, FailuresAreCountedByWhatTheyAreWithTheFirstsReason) {
  Outcome running, waiting;
  running.end = End::kCutOff;
  running.sent_us = 1200000;
  const LoadReport report = ReportOf(
      {Failed("cut", "a"), Failed("HTTP 429", "b"), Failed("HTTP 429", "c"), running, waiting},
      {1, 1, 1, 1, 1}, {});
  ASSERT_EQ(report.failures.size(), 2u);
  EXPECT_EQ(report.failures[0].what, "HTTP 429");
  EXPECT_EQ(report.failures[0].first_detail, "b");
  EXPECT_EQ(report.failures[0].requests, 2);
  EXPECT_EQ(report.failures[1].what, "cut");
  EXPECT_EQ(report.cut_off, 1);
  EXPECT_EQ(report.not_sent, 1);
  EXPECT_EQ(report.ttft.p99, 0);
}

TEST(LoadReportTest, JsonHasTheFieldsOfVllmsBenchmark) {
  const std::vector<Outcome> outcomes = {Completed(0, {100, 500}, 5), Failed("HTTP 429", "full")};
  LoadFacts facts{.backend = "sluice", .model = "m", .date = "20260101-000000", .requests = 2};
  facts.goodput = *ParseGoodput({"ttft:100"});
  const LoadReport report = ReportOf(outcomes, {5, 5}, facts.goodput);
  Json json = ToJson(facts, report, outcomes, true);
  for (const char* name : {"date",
                           "endpoint_type",
                           "backend",
                           "label",
                           "model_id",
                           "tokenizer_id",
                           "num_prompts",
                           "request_rate",
                           "burstiness",
                           "max_concurrency",
                           "duration",
                           "completed",
                           "failed",
                           "total_input_tokens",
                           "total_output_tokens",
                           "request_throughput",
                           "request_goodput",
                           "output_throughput",
                           "total_token_throughput",
                           "max_output_tokens_per_s",
                           "max_concurrent_requests",
                           "mean_ttft_ms",
                           "median_ttft_ms",
                           "std_ttft_ms",
                           "p99_ttft_ms",
                           "mean_tpot_ms",
                           "median_itl_ms",
                           "std_itl_ms",
                           "p99_e2el_ms",
                           "input_lens",
                           "output_lens",
                           "ttfts",
                           "itls",
                           "latencies",
                           "start_times",
                           "queue_times",
                           "errors"}) {
    EXPECT_TRUE(json.contains(name)) << name;
  }
  EXPECT_EQ(json["request_rate"], "inf");
  EXPECT_EQ(json["max_concurrency"], nullptr);
  EXPECT_EQ(json["num_prompts"], 2);
  EXPECT_EQ(json["goodput_share"], 0.5);
  EXPECT_EQ(json["ttfts"][0], 0.1);
  EXPECT_EQ(json["itls"][0], Json::array({0.4}));
  EXPECT_EQ(json["errors"], Json::array({"", "HTTP 429: full"}));
  facts.rate = 2.5;
  facts.concurrency = 4;
  json = ToJson(facts, ReportOf(outcomes, {5, 5}, {}), outcomes, false);
  EXPECT_EQ(json["request_rate"], 2.5);
  EXPECT_EQ(json["max_concurrency"], 4);
  EXPECT_EQ(json["request_goodput"], nullptr);
  EXPECT_FALSE(json.contains("itls"));
}

TEST(LoadReportTest, TextTellsOfFailuresAndShortAnswers) {
  const std::vector<Outcome> outcomes = {Completed(0, {100, 500}, 5),
                                         Failed("HTTP 429", "full\x1b[2J")};
  LoadFacts facts{.backend = "sluice", .model = "m", .date = "", .requests = 2};
  facts.goodput = *ParseGoodput({"ttft:100"});
  const std::string text = ToText(facts, ReportOf(outcomes, {6, 5}, facts.goodput));
  EXPECT_THAT(text, HasSubstr("1 of 2 requests"));
  EXPECT_THAT(text, HasSubstr("1 times HTTP 429, first: full\\x1b[2J"));
  EXPECT_THAT(text, HasSubstr("50.00 % of the requests (ttft up to 100 ms)"));
  EXPECT_THAT(text, HasSubstr("fewer tokens than were asked for"));
}

}  // namespace
}  // namespace sluice::load
