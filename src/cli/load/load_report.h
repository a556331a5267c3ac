// The figures of a load: what is made of its outcomes. Pure; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "cli/load/outcome.h"
#include "sluice/status.h"

namespace sluice::load {

// The value below which `percent` of `values` lie, between two of them by a straight line, as
// NumPy's percentile. 0 of nothing. `values` ascend.
double Percentile(const std::vector<double>& values, double percent);

// Of one kind of time, in milliseconds; zeros where there is none.
struct Times {
  double mean = 0, median = 0, deviation = 0, p99 = 0;
};
Times TimesOf(std::vector<double> values);

// What a request has to keep to be good, in milliseconds.
struct Goodput {
  std::optional<double> ttft_ms, tpot_ms, e2el_ms;
  bool empty() const { return !ttft_ms && !tpot_ms && !e2el_ms; }
};

// "ttft:MS", "tpot:MS" and "e2el:MS", each at most once. kInvalidArgument for anything else.
Result<Goodput> ParseGoodput(const std::vector<std::string>& limits);

// Failures that share what they are.
struct Failure {
  std::string what, first_detail;
  int64_t requests = 0;
};

struct LoadReport {
  int64_t completed = 0, failed = 0, cut_off = 0, not_sent = 0;
  double duration_s = 0;  // from the first request's time to the end of the last answer
  int64_t input_tokens = 0, output_tokens = 0;  // of completed requests
  int64_t short_answers = 0;                    // completed with fewer tokens than were asked for
  // Milliseconds of completed requests: to the first piece with text; from there to the last piece
  // for each further token, of answers of two tokens or more; from piece to piece; to the last
  // piece; and of waiting in the client for a free connection before being sent.
  Times ttft, tpot, itl, e2el, client_queue;
  std::optional<int64_t> good;  // completed requests within the limits, where there are any
  // The most in a second since the first request; each piece of an answer stands for an equal share
  // of the answer's tokens.
  double output_tokens_peak = 0;
  int64_t concurrent_peak = 0;    // completed requests that ran at one time
  std::vector<Failure> failures;  // the most frequent first

  double PerSecond(double count) const { return duration_s > 0 ? count / duration_s : 0; }
  // Of all requests that were sent and not cut off.
  double GoodShare() const;
};

// `asked_output[i]` is the length that was asked for in outcomes[i].
LoadReport ReportOf(const std::vector<Outcome>& outcomes, const std::vector<int>& asked_output,
                    const Goodput& limits);

// What a load was, for those who read its figures.
struct LoadFacts {
  std::string backend, model, date;  // date: YYYYmmdd-HHMMSS
  int64_t requests = 0;
  std::optional<double> rate;  // requests per second; may be infinite; none: a closed loop
  double burstiness = 1;
  std::optional<int> concurrency;  // none where no limit was asked for
  uint64_t seed = 0;
  Goodput goodput;
  bool interrupted = false;
};

// In the form of `vllm bench serve --save-result`, and further fields beside. `detailed`: its lists
// of each request's times in seconds, too.
Json ToJson(const LoadFacts& facts, const LoadReport& report, const std::vector<Outcome>& outcomes,
            bool detailed);

// Lines for people, each with its end.
std::string ToText(const LoadFacts& facts, const LoadReport& report);

}  // namespace sluice::load
