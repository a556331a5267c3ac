// How the figures of a load are written, for programs and for people.
#include <cmath>
#include <cstdio>

#include "base/str_cat.h"
#include "base/visible.h"
#include "cli/load/load_report.h"

namespace sluice::load {
namespace {

struct NamedTimes {
  const char* name;
  const char* title;
  const Times& times;
};

std::vector<NamedTimes> AllTimes(const LoadReport& report) {
  std::vector<NamedTimes> all = {{"ttft", "time to first token", report.ttft},
                                 {"tpot", "time per output token", report.tpot},
                                 {"itl", "between pieces", report.itl},
                                 {"e2el", "whole answer", report.e2el},
                                 {"client_queue_time", "waiting to be sent", report.client_queue}};
  return all;
}

void AddDetails(const std::vector<Outcome>& outcomes, Json* json) {
  const auto seconds = [](int64_t from_us, int64_t to_us) {
    return static_cast<double>(to_us - from_us) / 1e6;
  };
  for (const char* name : {"input_lens", "output_lens", "ttfts", "itls", "latencies", "start_times",
                           "queue_times", "errors"}) {
    (*json)[name] = Json::array();
  }
  for (const Outcome& outcome : outcomes) {
    const bool whole = outcome.end == Outcome::End::kCompleted;
    const bool sent = outcome.end != Outcome::End::kNotSent;
    (*json)["input_lens"].push_back(outcome.input_tokens);
    (*json)["output_lens"].push_back(whole ? outcome.output_tokens : 0);
    (*json)["ttfts"].push_back(
        outcome.chunk_us.empty() ? 0 : seconds(outcome.sent_us, outcome.chunk_us.front()));
    Json gaps = Json::array();
    for (size_t i = 1; i < outcome.chunk_us.size(); ++i) {
      gaps.push_back(seconds(outcome.chunk_us[i - 1], outcome.chunk_us[i]));
    }
    (*json)["itls"].push_back(std::move(gaps));
    (*json)["latencies"].push_back(
        outcome.last_us == 0 ? 0 : seconds(outcome.sent_us, outcome.last_us));
    (*json)["start_times"].push_back(seconds(0, outcome.sent_us));
    (*json)["queue_times"].push_back(sent ? seconds(outcome.due_us, outcome.sent_us) : 0);
    const bool failed = outcome.end == Outcome::End::kFailed;
    (*json)["errors"].push_back(!failed ? ""
                                : outcome.detail.empty()
                                    ? outcome.failure
                                    : StrCat(outcome.failure, ": ", outcome.detail));
  }
}

Json GoodputJson(const Goodput& goodput) {
  Json json = Json::object();
  if (goodput.ttft_ms) json["ttft"] = *goodput.ttft_ms;
  if (goodput.tpot_ms) json["tpot"] = *goodput.tpot_ms;
  if (goodput.e2el_ms) json["e2el"] = *goodput.e2el_ms;
  return json;
}

void Line(std::string* text, std::string_view name, const std::string& value) {
  *text += name;
  *text += std::string(24 - name.size(), ' ') + value + "\n";
}

std::string Number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.*f", std::abs(value) < 100 ? 2 : 1, value);
  return text;
}

void AddFailures(const LoadReport& report, std::string* text) {
  for (const Failure& failure : report.failures) {
    *text += StrCat("  ", failure.requests, " times ", Visible(failure.what),
                    failure.first_detail.empty() ? "" : ", first: ", Visible(failure.first_detail),
                    "\n");
  }
}

std::string GoodputText(const Goodput& goodput) {
  std::string text;
  const auto add = [&](const char* name, const std::optional<double>& limit) {
    if (limit) text += StrCat(text.empty() ? "" : ", ", name, " up to ", *limit, " ms");
  };
  add("ttft", goodput.ttft_ms);
  add("tpot", goodput.tpot_ms);
  add("e2el", goodput.e2el_ms);
  return text;
}

}  // namespace

Json ToJson(const LoadFacts& facts, const LoadReport& report, const std::vector<Outcome>& outcomes,
            bool detailed) {
  Json json = {{"date", facts.date},
               {"endpoint_type", facts.backend},
               {"backend", facts.backend},
               {"label", nullptr},
               {"model_id", facts.model},
               {"tokenizer_id", facts.model},
               {"num_prompts", facts.requests},
               {"burstiness", facts.burstiness},
               {"seed", facts.seed},
               {"duration", report.duration_s},
               {"completed", report.completed},
               {"failed", report.failed},
               {"total_input_tokens", report.input_tokens},
               {"total_output_tokens", report.output_tokens},
               {"request_throughput", report.PerSecond(static_cast<double>(report.completed))},
               {"output_throughput", report.PerSecond(static_cast<double>(report.output_tokens))},
               {"total_token_throughput",
                report.PerSecond(static_cast<double>(report.input_tokens + report.output_tokens))},
               {"max_output_tokens_per_s", report.output_tokens_peak},
               {"max_concurrent_requests", report.concurrent_peak},
               {"cut_off", report.cut_off},
               {"not_sent", report.not_sent},
               {"interrupted", facts.interrupted}};
  json["request_rate"] = facts.rate && std::isfinite(*facts.rate) ? Json(*facts.rate) : Json("inf");
  json["max_concurrency"] = facts.concurrency ? Json(*facts.concurrency) : Json(nullptr);
  json["request_goodput"] =
      report.good ? Json(report.PerSecond(static_cast<double>(*report.good))) : Json(nullptr);
  json["goodput_share"] = report.good ? Json(report.GoodShare()) : Json(nullptr);
  json["goodput_limits_ms"] = GoodputJson(facts.goodput);
  for (const NamedTimes& one : AllTimes(report)) {
    json[StrCat("mean_", one.name, "_ms")] = one.times.mean;
    json[StrCat("median_", one.name, "_ms")] = one.times.median;
    json[StrCat("std_", one.name, "_ms")] = one.times.deviation;
    json[StrCat("p99_", one.name, "_ms")] = one.times.p99;
  }
  json["failures"] = Json::array();
  for (const Failure& failure : report.failures) {
    json["failures"].push_back({{"what", failure.what},
                                {"first_detail", failure.first_detail},
                                {"requests", failure.requests}});
  }
  if (detailed) AddDetails(outcomes, &json);
  return json;
}

std::string ToText(const LoadFacts& facts, const LoadReport& report) {
  std::string text;
  Line(&text, "completed", StrCat(report.completed, " of ", facts.requests, " requests"));
  Line(&text, "failed", StrCat(report.failed));
  AddFailures(report, &text);
  if (facts.interrupted) {
    Line(&text, "stopped",
         StrCat(report.cut_off, " were running and ", report.not_sent, " not sent yet"));
  }
  const auto rate = [&](double count) { return StrCat(Number(report.PerSecond(count)), " /s"); };
  Line(&text, "duration", StrCat(Number(report.duration_s), " s"));
  Line(&text, "requests",
       StrCat(rate(static_cast<double>(report.completed)), ", at most ", report.concurrent_peak,
              " at a time"));
  Line(&text, "input tokens",
       StrCat(report.input_tokens, ", ", rate(static_cast<double>(report.input_tokens))));
  Line(&text, "output tokens",
       StrCat(report.output_tokens, ", ", rate(static_cast<double>(report.output_tokens)),
              ", at most ", Number(report.output_tokens_peak), " in a second"));
  Line(&text, "all tokens", rate(static_cast<double>(report.input_tokens + report.output_tokens)));
  if (report.good) {
    Line(&text, "goodput",
         StrCat(rate(static_cast<double>(*report.good)), ", ", Number(report.GoodShare() * 100),
                " % of the requests (", GoodputText(facts.goodput), ")"));
  }
  if (report.completed > 0) {
    char line[128];
    std::snprintf(line, sizeof line, "%-24s %10s %10s %10s\n", "milliseconds", "mean", "median",
                  "p99");
    text += line;
    for (const NamedTimes& one : AllTimes(report)) {
      const bool closed_loop = !facts.rate;
      if (closed_loop && &one.times == &report.client_queue) continue;
      std::snprintf(line, sizeof line, "%-24s %10s %10s %10s\n", one.title,
                    Number(one.times.mean).c_str(), Number(one.times.median).c_str(),
                    Number(one.times.p99).c_str());
      text += line;
    }
  }
  if (report.short_answers > 0) {
    text += StrCat(report.short_answers,
                   " answers have fewer tokens than were asked for: the server does not take "
                   "ignore_eos, or cuts answers to its own limit\n");
  }
  return text;
}

}  // namespace sluice::load
