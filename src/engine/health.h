// Whether an engine is well, from what its step loop shows. Pure: time is in the state.
#pragma once

#include "engine/step.h"
#include "sluice/engine.h"

namespace sluice::engine {

// A step that takes longer than this is taken for a hang; the largest chunk on the slowest machine
// takes a few seconds.
inline constexpr int64_t kStuckMsMax = 30'000;
// Steps that may fail in a row before the engine calls itself unhealthy.
inline constexpr int kFailuresMax = 3;
// It stays so for this long after the last failure. Whoever sends requests only where it is well
// must be let in again, because nothing but a request can show that the device works; the first
// step that fails closes the door for as long again.
inline constexpr int64_t kFailureMsMax = 5'000;

// A text worker that is at one piece of work for longer than this is taken for a hang: what a
// client can make it do is limited to a few seconds, and the requests behind it wait.
inline constexpr int64_t kTextStuckMsMax = 10'000;

// A text worker that takes no request for longer than this while some wait serves nobody new,
// however short each piece of its work is. How long a request has waited says nothing: behind many
// others that are answered one by one, that is load, which the queue's metrics tell.
inline constexpr int64_t kTextUntakenMsMax = 10'000;

struct TextState {
  int64_t stuck_ms = 0;    // TextWorkers::StuckMs
  int64_t untaken_ms = 0;  // TextWorkers::UntakenMs
};

EngineHealth HealthOf(const StepLoop::State& state, const TextState& text, bool draining);

}  // namespace sluice::engine
