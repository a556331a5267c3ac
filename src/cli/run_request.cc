#include "cli/run_request.h"

#include <chrono>
#include <cstdio>
#include <iostream>
#include <utility>

#include "base/bounded_queue.h"
#include "base/check.h"
#include "base/counted.h"
#include "base/str_cat.h"
#include "cli/signals.h"

namespace sluice::cli {
namespace {

// How soon Ctrl-C is noticed.
constexpr auto kPoll = std::chrono::milliseconds(50);
// Fewer tokens give no rate.
constexpr int kRateTokensMin = 8;

// Ctrl-C came, or standard output cannot be written.
bool Unwanted() { return InterruptRaised() || !std::cout; }

}  // namespace

size_t EventsMax(const Engine& engine, int requests) {
  return static_cast<size_t>(requests) * (static_cast<size_t>(engine.Info().max_model_len) + 1);
}

Result<RunResult> RunRequest(Engine& engine, Request request,
                             const std::function<void(const TextDelta&)>& on_delta,
                             const std::function<void()>& on_wait) {
  // The sink outlives this call only if the request does, and it does not: its last event ends it.
  BoundedQueue<TextDelta> events(EventsMax(engine, 1));
  SLUICE_ASSIGN_OR_RETURN(const RequestId id,
                          engine.Submit(std::move(request), [&events](TextDelta&& delta) {
                            CHECK(events.TryPush(std::move(delta)), "more events than tokens");
                          }));
  RunResult result;
  bool cancelled = false;
  for (;;) {
    if (Unwanted() && !std::exchange(cancelled, true)) engine.Cancel(id);
    std::optional<TextDelta> delta = events.PopFor(kPoll);
    if (!delta) {
      if (on_wait) on_wait();
      continue;
    }
    if (on_delta) on_delta(*delta);
    result.text += delta->text;
    for (TokenInfo& token : delta->tokens) result.tokens.push_back(std::move(token));
    for (TokenInfo& token : delta->prompt_tokens) result.prompt_tokens.push_back(std::move(token));
    if (!delta->last) continue;
    if (!delta->error.ok()) return delta->error;
    delta->text = std::move(result.text);
    delta->tokens = std::move(result.tokens);
    delta->prompt_tokens = std::move(result.prompt_tokens);
    return *std::move(delta);
  }
}

std::string RateLine(int tokens, double decode_ms) {
  if (tokens - 1 < kRateTokensMin || decode_ms <= 0) return Counted(tokens, "token");
  char rate[40];
  std::snprintf(rate, sizeof rate, ", %.1f/s", (tokens - 1) * 1e3 / decode_ms);
  return StrCat(tokens, " tokens", rate);
}

std::string SpeedLine(const RunResult& result) {
  const Usage& usage = result.usage;
  // ", 12.3 tokens/s"; nothing for a few tokens, whose time is that of starting.
  const auto rate = [](int tokens, double ms) -> std::string {
    if (tokens < kRateTokensMin || ms <= 0) return "";
    char text[40];
    std::snprintf(text, sizeof text, ", %.1f tokens/s", tokens * 1e3 / ms);
    return text;
  };
  const bool cut = result.finish == FinishReason::kLength;
  const int drafts = usage.accepted_tokens + usage.rejected_tokens;
  return StrCat(Counted(usage.completion_tokens, "token"), cut ? " (the limit)" : "",
                rate(usage.completion_tokens - 1, usage.decode_ms),
                drafts == 0
                    ? std::string()
                    : StrCat(", ", usage.accepted_tokens, " of ", drafts, " drafts accepted",
                             usage.synthetic_acceptance > 0 ? " by lot"
                             : usage.verified_by_rejection  ? " by rejection sampling"
                                                            : ""),
                "; prompt ", Counted(usage.prompt_tokens, "token"), " (", usage.cached_tokens,
                " cached)", rate(usage.prompt_tokens - usage.cached_tokens, usage.prefill_ms));
}

}  // namespace sluice::cli
