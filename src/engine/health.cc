#include "engine/health.h"

#include "base/str_cat.h"

namespace sluice::engine {

EngineHealth HealthOf(const StepLoop::State& state, const TextState& text, bool draining) {
  EngineHealth health;
  if (state.stuck_ms > kStuckMsMax) {
    health.reason = StrCat("no step has finished for ", state.stuck_ms / 1000, " s");
  } else if (text.stuck_ms > kTextStuckMsMax) {
    health.reason = StrCat("a text worker has been at one piece of work for ", text.stuck_ms / 1000,
                           " s; its requests wait");
  } else if (text.untaken_ms > kTextUntakenMsMax) {
    health.reason = StrCat("a text worker has taken none of the requests that wait for it for ",
                           text.untaken_ms / 1000, " s");
  } else if (state.consecutive_failures >= kFailuresMax && state.failed_ms < kFailureMsMax) {
    health.reason = StrCat("the last ", state.consecutive_failures, " steps failed; requests are ",
                           "wanted again ", kFailureMsMax / 1000, " s after the last failure");
  }
  health.ok = health.reason.empty();
  health.ready = health.ok && !draining && !state.paused;
  if (!health.ok) return health;
  if (draining) health.reason = "draining";
  if (state.paused) health.reason = "paused";
  return health;
}

}  // namespace sluice::engine
