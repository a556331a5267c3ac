#include "schedule/step_times.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace sluice::schedule {
namespace {

// A new step's part of the running means, and of the way back from a longest step.
constexpr double kNewPart = 1.0 / 8;
// Of the best rate, what is nearly as good.
constexpr double kEfficientPart = 0.9;
constexpr double kForgottenPart = 1.0 / 64;

size_t WidthOf(int32_t tokens) { return std::bit_width(static_cast<uint32_t>(tokens)); }

}  // namespace

void StepTimes::Observe(int32_t tokens, double microseconds) {
  CHECK(tokens > 0 && microseconds >= 0.0, tokens);
  Seen& seen = by_width_[WidthOf(tokens)];
  const double part = seen.tokens == 0.0 ? 1.0 : kNewPart;
  seen.tokens += part * (tokens - seen.tokens);
  seen.microseconds += part * (microseconds - seen.microseconds);
  longest_ = std::max(microseconds, longest_ - kForgottenPart * longest_);
}

int32_t StepTimes::Efficient(int32_t most) const {
  double best = 0.0;
  for (const Seen& seen : by_width_) {
    if (seen.microseconds > 0.0) best = std::max(best, seen.tokens / seen.microseconds);
  }
  if (best == 0.0) return most;
  for (int64_t tokens = 1; tokens < most; tokens = 2 * tokens + 1) {
    const auto count = static_cast<int32_t>(tokens);
    const Seen& seen = by_width_[WidthOf(count)];
    const double rate = seen.tokens > 0.0 ? seen.tokens / seen.microseconds : count / Of(count);
    if (!(rate < kEfficientPart * best)) return count;
  }
  return most;
}

double StepTimes::Of(int32_t tokens) const {
  CHECK(tokens > 0, tokens);
  const size_t width = WidthOf(tokens);
  if (by_width_[width].tokens > 0.0) return by_width_[width].microseconds;
  const auto seen = [](const Seen& other) { return other.tokens > 0.0; };
  auto other = std::find_if(by_width_.begin() + width, by_width_.end(), seen);
  if (other == by_width_.end()) {
    const auto fewer = std::find_if(by_width_.rend() - width, by_width_.rend(), seen);
    if (fewer == by_width_.rend()) return 0.0;
    other = fewer.base() - 1;
  }
  return other->microseconds * tokens / other->tokens;
}

}  // namespace sluice::schedule
