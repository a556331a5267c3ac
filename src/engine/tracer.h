// Writes what the steps do, and how long requests live, in the form that Perfetto (ui.perfetto.dev)
// and chrome://tracing show, to a file or to memory. The step thread gives events, which allocates
// and waits for nothing; a thread of the tracer's own writes them. Step and the Request functions
// are for one thread, the rest is for the owner.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "engine/trace_file.h"
#include "sluice/request.h"
#include "sluice/status.h"

namespace sluice::engine {

// Times are NowMicros, and durations microseconds.
struct StepTrace {
  uint64_t step = 0;
  int64_t begin_us = 0, plan_us = 0;         // from the beginning
  int64_t launched_us = 0, finished_us = 0;  // between them the device had it
  int64_t prepare_us = 0, sample_us = 0;     // within that
  int64_t end_us = 0;                        // committed, and handed to the text workers
  int32_t tokens = 0;
};

struct TracerLimits {
  size_t waiting_events = 1 << 16;        // more are left out, and the file says how many
  int64_t file_bytes = int64_t{4} << 30;  // then the trace ends
  int64_t steps = INT64_MAX;              // behind these nothing is noted
};

class Tracer {
 public:
  // `process`: its name in the picture, beside the others of the file that this program has written
  // or still writes. Without one the file is made, or emptied, unless another tracer writes it.
  // kIo: it cannot be written.
  static Result<std::unique_ptr<Tracer>> Begin(const std::string& path,
                                               std::string_view process = {},
                                               const TracerLimits& limits = {});
  // Traces to memory, which Text gives.
  static std::unique_ptr<Tracer> InMemory(const TracerLimits& limits);
  ~Tracer();  // as End
  Tracer(const Tracer&) = delete;
  Tracer& operator=(const Tracer&) = delete;

  void Step(const StepTrace& step);
  void RequestBegins(RequestId id, int64_t submitted_us);
  void RequestDraws(RequestId id, int64_t now_us);  // its first token
  void RequestEnds(RequestId id, int64_t now_us);

  // Waits until TracerLimits::steps have come, `seconds_max` have passed, or somebody interrupts.
  void AwaitSteps(double seconds_max);
  void Interrupt();
  // Writes what is left, and the end of the trace; what comes later is not noted.
  void End();
  // What a tracer to memory has written; ends it.
  std::string Text();

 private:
  struct Event {
    enum class Kind : uint8_t { kStep, kBegin, kDraw, kEnd };
    Kind kind = Kind::kStep;
    RequestId request = 0;
    int64_t at_us = 0;
    StepTrace step;
  };

  Tracer(TraceFile& file, int process, const TracerLimits& limits,
         std::unique_ptr<TraceFile> memory);
  void Add(const Event& event);
  void Run();
  void Write(const Event& event);  // for the writing thread

  const TracerLimits limits_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable steps_came_;
  std::vector<Event> waiting_;  // guarded by mutex_; its capacity stays
  int64_t left_out_ = 0;        // guarded by mutex_
  bool stopping_ = false;       // guarded by mutex_
  bool interrupted_ = false;    // guarded by mutex_
  int64_t steps_left_;          // guarded by mutex_

  // Writing thread, and before and behind it the owner.
  const std::unique_ptr<TraceFile> memory_;  // null: a file
  TraceFile& file_;
  const int process_;  // its number in the file
  bool ended_ = false;
  std::vector<Event> taken_;
  std::thread thread_;
};

// The tracers of a step loop: one to a file, and one of a profile. For the step thread.
class Tracers {
 public:
  void Add(std::shared_ptr<Tracer> tracer) { tracers_.push_back(std::move(tracer)); }
  void Remove(const std::shared_ptr<Tracer>& tracer) { std::erase(tracers_, tracer); }
  bool empty() const { return tracers_.empty(); }

  void Step(const StepTrace& step) {
    for (const auto& tracer : tracers_) tracer->Step(step);
  }
  void RequestBegins(RequestId id, int64_t submitted_us) {
    for (const auto& tracer : tracers_) tracer->RequestBegins(id, submitted_us);
  }
  void RequestDraws(RequestId id, int64_t now_us) {
    for (const auto& tracer : tracers_) tracer->RequestDraws(id, now_us);
  }
  void RequestEnds(RequestId id, int64_t now_us) {
    for (const auto& tracer : tracers_) tracer->RequestEnds(id, now_us);
  }

 private:
  std::vector<std::shared_ptr<Tracer>> tracers_;
};

}  // namespace sluice::engine
