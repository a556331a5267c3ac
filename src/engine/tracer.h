// Writes what the steps do, and how long requests live, to a file that Perfetto (ui.perfetto.dev)
// and chrome://tracing show. The step thread gives events, which allocates and waits for nothing; a
// thread of the tracer's own writes them. Begin and the end of the object are for the owner; Step
// and the rest for one thread.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

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
};

class Tracer {
 public:
  // Makes the file, or empties it. kIo: it cannot be written.
  static Result<std::unique_ptr<Tracer>> Begin(const std::string& path,
                                               const TracerLimits& limits = {});
  ~Tracer();  // writes what is left, and the end of the file
  Tracer(const Tracer&) = delete;
  Tracer& operator=(const Tracer&) = delete;

  void Step(const StepTrace& step);
  void RequestBegins(RequestId id, int64_t submitted_us);
  void RequestDraws(RequestId id, int64_t now_us);  // its first token
  void RequestEnds(RequestId id, int64_t now_us);

 private:
  struct Event {
    enum class Kind : uint8_t { kStep, kBegin, kDraw, kEnd };
    Kind kind = Kind::kStep;
    RequestId request = 0;
    int64_t at_us = 0;
    StepTrace step;
  };

  Tracer(std::FILE* file, const TracerLimits& limits);
  void Add(const Event& event);
  void Run();
  // Both are for the writing thread.
  void Write(const Event& event);
  void WriteLine(const char* text, int length);

  const TracerLimits limits_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<Event> waiting_;  // guarded by mutex_; its capacity stays
  int64_t left_out_ = 0;        // guarded by mutex_
  bool stopping_ = false;       // guarded by mutex_

  // Writing thread, and before and behind it the owner.
  std::FILE* const file_;
  std::vector<Event> taken_;
  int64_t bytes_ = 0;
  bool full_ = false;
  std::thread thread_;
};

}  // namespace sluice::engine
