#include "engine/profiler.h"

#include <optional>
#include <utility>

#include "base/str_cat.h"

namespace sluice::engine {
namespace {

// A step of many requests has a line of some 400 bytes for itself and its phases, and each request
// three of 100.
constexpr TracerLimits kLimits{.waiting_events = 1 << 14, .file_bytes = int64_t{16} << 20};

Result<int64_t> Steps(const Json& command) {
  const Json steps = command.value("steps", Json(Profiler::kStepsDefault));
  if (!steps.is_number_integer() || steps < 1 || steps > Profiler::kStepsMax) {
    return InvalidArgument(StrCat("steps is ", steps.dump(), "; it must be an integer from 1 to ",
                                  Profiler::kStepsMax),
                           "steps");
  }
  return steps.get<int64_t>();
}

Result<double> Seconds(const Json& command) {
  const Json seconds = command.value("seconds", Json(Profiler::kSecondsDefault));
  if (!seconds.is_number() || seconds <= 0.0 || seconds > Profiler::kSecondsMax) {
    return InvalidArgument(
        StrCat("seconds is ", seconds.dump(), "; it must be a number above 0, of at most ",
               Profiler::kSecondsMax),
        "seconds");
  }
  return seconds.get<double>();
}

}  // namespace

Result<std::string> Profiler::Take(const Json& command, StepLoop* loop) {
  TracerLimits limits = kLimits;
  SLUICE_ASSIGN_OR_RETURN(limits.steps, Steps(command));
  SLUICE_ASSIGN_OR_RETURN(const double seconds, Seconds(command));
  const std::shared_ptr<Tracer> tracer = Tracer::InMemory(limits);
  {
    std::lock_guard lock(mutex_);
    if (tracer_ != nullptr) {
      return Status(StatusCode::kFailedPrecondition,
                    "a profile of this model is being taken; ask again when that has ended");
    }
    tracer_ = tracer;
  }
  const bool runs = loop->Trace(tracer);
  if (runs) {
    tracer->AwaitSteps(seconds);
    loop->EndTrace(tracer);
  }
  {
    std::lock_guard lock(mutex_);
    tracer_ = nullptr;
  }
  if (!runs) return Status(StatusCode::kUnavailable, "the engine has stopped");
  return tracer->Text();
}

void Profiler::End() {
  std::lock_guard lock(mutex_);
  if (tracer_ != nullptr) tracer_->Interrupt();
}

}  // namespace sluice::engine
