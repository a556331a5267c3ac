#include "schedule/step_times.h"

#include <algorithm>
#include <bit>
#include <span>

#include "base/check.h"

namespace sluice::schedule {
namespace {

// A new step's part of the running means, and of the way back from a longest step.
constexpr double kNewPart = 1.0 / 8;
constexpr double kForgottenPart = 1.0 / 64;
// A step that takes more than so many times the mean was held up by another program, say, and
// counts as one that took so long.
constexpr double kOutlier = 2.0;
// Of the best rate, what is worth it.
constexpr double kRatePartMin = 0.5;

size_t WidthOf(int32_t tokens) { return std::bit_width(static_cast<uint32_t>(tokens)); }

}  // namespace

void StepTimes::Observe(int32_t tokens, double microseconds) {
  CHECK(tokens > 0 && microseconds >= 0.0, tokens);
  Seen& seen = by_width_[WidthOf(tokens)];
  const bool first = seen.tokens == 0.0;
  const double part = first ? 1.0 : kNewPart;
  seen.tokens += part * (tokens - seen.tokens);
  const double most = kOutlier * seen.microseconds;
  const double counted = first ? microseconds : std::min(microseconds, most);
  seen.microseconds += part * (counted - seen.microseconds);
  longest_ = std::max(microseconds, longest_ - kForgottenPart * longest_);
}

int32_t StepTimes::Within(double microseconds, int32_t most) const {
  int32_t fits = 1, beyond = most + 1;
  while (beyond - fits > 1) {
    const int32_t middle = fits + (beyond - fits) / 2;
    (Of(middle) <= microseconds ? fits : beyond) = middle;
  }
  return fits;
}

int32_t StepTimes::WorthIt(int32_t tokens, int32_t most) const {
  double best = 0.0;
  for (const Seen& seen : std::span(by_width_).first(WidthOf(most) + 1)) {
    if (seen.microseconds > 0.0) best = std::max(best, seen.tokens / seen.microseconds);
  }
  while (tokens < most && tokens < kRatePartMin * best * Of(tokens))
    tokens = std::min(most, 2 * tokens);
  return tokens;
}

double StepTimes::Of(int32_t tokens) const {
  CHECK(tokens > 0, tokens);
  const Seen *fewer = nullptr, *more = nullptr;
  for (const Seen& seen : by_width_) {
    if (seen.tokens == 0.0) continue;
    if (seen.tokens <= tokens) fewer = &seen;
    if (seen.tokens >= tokens && more == nullptr) more = &seen;
  }
  if (fewer == nullptr && more == nullptr) return 0.0;
  if (fewer == nullptr) return more->microseconds * tokens / more->tokens;
  if (more == nullptr) return fewer->microseconds * tokens / fewer->tokens;
  if (more == fewer) return more->microseconds;
  const double way = (tokens - fewer->tokens) / (more->tokens - fewer->tokens);
  return fewer->microseconds + way * (more->microseconds - fewer->microseconds);
}

}  // namespace sluice::schedule
