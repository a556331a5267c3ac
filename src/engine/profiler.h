// Profiles of an engine: a trace of its next steps, one at a time, for the command "profile" of
// Engine::Admin. Thread-safe.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "base/json.h"
#include "engine/step.h"
#include "engine/tracer.h"

namespace sluice::engine {

class Profiler {
 public:
  static constexpr int64_t kStepsMax = 1000, kStepsDefault = 100;
  static constexpr double kSecondsMax = 60.0, kSecondsDefault = 10.0;

  // Waits for the next `steps` of the loop, `seconds` at most, and gives what they did, as Perfetto
  // reads it; both numbers are fields of the command. kInvalidArgument: one of them is wrong;
  // kFailedPrecondition: a profile is being taken; kUnavailable: the loop has stopped.
  Result<std::string> Take(const Json& command, StepLoop* loop);

  // The profile that is being taken, if there is one, ends with the steps that have come.
  void End();

 private:
  std::mutex mutex_;
  std::shared_ptr<Tracer> tracer_;  // null: none is being taken; guarded by mutex_
};

}  // namespace sluice::engine
