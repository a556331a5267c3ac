#include "cli/load/load_report.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

#include "base/parse_number.h"
#include "base/str_cat.h"
#include "base/visible.h"

namespace sluice::load {
namespace {

using End = Outcome::End;

double Milliseconds(int64_t from_us, int64_t to_us) {
  return static_cast<double>(to_us - from_us) * 1e-3;
}

double TtftOf(const Outcome& outcome) {
  return Milliseconds(outcome.sent_us, outcome.chunk_us.front());
}
double E2elOf(const Outcome& outcome) { return Milliseconds(outcome.sent_us, outcome.last_us); }

// 0 of one token, which any limit allows.
double TpotOf(const Outcome& outcome) {
  if (outcome.output_tokens < 2) return 0;
  return Milliseconds(outcome.chunk_us.front(), outcome.last_us) / (outcome.output_tokens - 1);
}

bool IsGood(const Outcome& outcome, const Goodput& limits) {
  return TtftOf(outcome) <= limits.ttft_ms.value_or(INFINITY) &&
         TpotOf(outcome) <= limits.tpot_ms.value_or(INFINITY) &&
         E2elOf(outcome) <= limits.e2el_ms.value_or(INFINITY);
}

double PeakTokens(const std::vector<const Outcome*>& completed) {
  if (completed.empty()) return 0;
  int64_t start_us = completed.front()->sent_us;
  for (const Outcome* outcome : completed) start_us = std::min(start_us, outcome->sent_us);
  std::map<int64_t, double> seconds;
  for (const Outcome* outcome : completed) {
    const double share = outcome->output_tokens / static_cast<double>(outcome->chunk_us.size());
    for (const int64_t at_us : outcome->chunk_us) seconds[(at_us - start_us) / 1000000] += share;
  }
  double peak = 0;
  for (const auto& [second, tokens] : seconds) peak = std::max(peak, tokens);
  return peak;
}

int64_t PeakConcurrent(const std::vector<const Outcome*>& completed) {
  std::vector<std::pair<int64_t, int>> changes;  // an end before a start of the same time
  for (const Outcome* outcome : completed) {
    changes.emplace_back(outcome->sent_us, 1);
    changes.emplace_back(outcome->last_us, -1);
  }
  std::sort(changes.begin(), changes.end());
  int64_t running = 0, peak = 0;
  for (const auto& [at_us, change] : changes) peak = std::max(peak, running += change);
  return peak;
}

std::vector<Failure> FailuresOf(const std::vector<Outcome>& outcomes) {
  std::vector<Failure> failures;
  for (const Outcome& outcome : outcomes) {
    if (outcome.end != End::kFailed) continue;
    const auto same = [&](const Failure& one) { return one.what == outcome.failure; };
    auto found = std::find_if(failures.begin(), failures.end(), same);
    if (found == failures.end()) {
      found = failures.insert(found, {.what = outcome.failure, .first_detail = outcome.detail});
    }
    ++found->requests;
  }
  std::stable_sort(failures.begin(), failures.end(),
                   [](const Failure& a, const Failure& b) { return a.requests > b.requests; });
  return failures;
}

void AddTimes(const std::vector<const Outcome*>& completed, LoadReport* report) {
  std::vector<double> ttft, tpot, itl, e2el, queue;
  for (const Outcome* outcome : completed) {
    ttft.push_back(TtftOf(*outcome));
    if (outcome->output_tokens > 1) tpot.push_back(TpotOf(*outcome));
    for (size_t i = 1; i < outcome->chunk_us.size(); ++i) {
      itl.push_back(Milliseconds(outcome->chunk_us[i - 1], outcome->chunk_us[i]));
    }
    e2el.push_back(E2elOf(*outcome));
    queue.push_back(Milliseconds(outcome->due_us, outcome->sent_us));
  }
  report->ttft = TimesOf(std::move(ttft));
  report->tpot = TimesOf(std::move(tpot));
  report->itl = TimesOf(std::move(itl));
  report->e2el = TimesOf(std::move(e2el));
  report->client_queue = TimesOf(std::move(queue));
}

}  // namespace

double Percentile(const std::vector<double>& values, double percent) {
  if (values.empty()) return 0;
  const double at = percent / 100 * static_cast<double>(values.size() - 1);
  const size_t below = std::min(static_cast<size_t>(at), values.size() - 1);
  const size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (values[above] - values[below]) * (at - static_cast<double>(below));
}

Times TimesOf(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const double count = static_cast<double>(values.size());
  Times times;
  times.mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  double squares = 0;
  for (const double value : values) squares += (value - times.mean) * (value - times.mean);
  times.deviation = std::sqrt(squares / count);
  times.median = Percentile(values, 50);
  times.p99 = Percentile(values, 99);
  return times;
}

Result<Goodput> ParseGoodput(const std::vector<std::string>& limits) {
  Goodput goodput;
  for (const std::string& limit : limits) {
    const size_t colon = std::min(limit.find(':'), limit.size());
    const std::string name = limit.substr(0, colon);
    std::optional<double>* const field = name == "ttft"   ? &goodput.ttft_ms
                                         : name == "tpot" ? &goodput.tpot_ms
                                         : name == "e2el" ? &goodput.e2el_ms
                                                          : nullptr;
    const std::string_view text = std::string_view(limit).substr(std::min(colon + 1, limit.size()));
    const std::optional<double> value = ParseNumber<double>(text);
    if (field == nullptr || *field || !value || !std::isfinite(*value) || *value < 0) {
      return InvalidArgument(
          StrCat("--goodput ", Quote(limit), " is no limit of milliseconds; give ttft:MS, tpot:MS ",
                 "and e2el:MS, each at most once, and MODEL before them"),
          "goodput");
    }
    *field = value;
  }
  return goodput;
}

double LoadReport::GoodShare() const {
  const int64_t ended = completed + failed;
  return good && ended > 0 ? static_cast<double>(*good) / static_cast<double>(ended) : 0;
}

LoadReport ReportOf(const std::vector<Outcome>& outcomes, const std::vector<int>& asked_output,
                    const Goodput& limits) {
  LoadReport report;
  if (!limits.empty()) report.good = 0;
  std::vector<const Outcome*> completed;
  int64_t first_us = INT64_MAX, last_us = 0;
  for (size_t i = 0; i < outcomes.size(); ++i) {
    const Outcome& outcome = outcomes[i];
    report.not_sent += outcome.end == End::kNotSent;
    report.cut_off += outcome.end == End::kCutOff;
    report.failed += outcome.end == End::kFailed;
    if (outcome.end != End::kNotSent) {
      first_us = std::min(first_us, outcome.sent_us);
      last_us = std::max({last_us, outcome.sent_us, outcome.last_us});
    }
    if (outcome.end != End::kCompleted) continue;
    completed.push_back(&outcome);
    report.input_tokens += outcome.input_tokens;
    report.output_tokens += outcome.output_tokens;
    report.short_answers += outcome.output_tokens < asked_output[i];
    if (report.good && IsGood(outcome, limits)) ++*report.good;
  }
  report.completed = static_cast<int64_t>(completed.size());
  if (last_us > 0) report.duration_s = Milliseconds(first_us, last_us) * 1e-3;
  AddTimes(completed, &report);
  report.output_tokens_peak = PeakTokens(completed);
  report.concurrent_peak = PeakConcurrent(completed);
  report.failures = FailuresOf(outcomes);
  return report;
}

}  // namespace sluice::load
