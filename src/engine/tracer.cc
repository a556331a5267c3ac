#include "engine/tracer.h"

#include <array>
#include <chrono>
#include <cstdio>
#include <utility>

#include "base/log.h"

namespace sluice::engine {
namespace {

constexpr auto kWritePeriod = std::chrono::milliseconds(200);
constexpr size_t kLineBytesMax = 512;
// Rows of the picture. Steps whose device work overlaps stand on rows of their own.
constexpr int kRequestRow = 1, kStepRow = 2;
constexpr uint64_t kStepRows = 2;
// The name of a trace of one engine alone.
constexpr std::string_view kOnlyProcess = "sluice";

}  // namespace

Result<std::unique_ptr<Tracer>> Tracer::Begin(const std::string& path, std::string_view process,
                                              const TracerLimits& limits) {
  TraceFile& file = TraceFile::At(path);
  SLUICE_ASSIGN_OR_RETURN(const int number, file.Join(process.empty() ? kOnlyProcess : process,
                                                      !process.empty(), limits.file_bytes));
  return std::unique_ptr<Tracer>(new Tracer(file, number, limits, nullptr));
}

std::unique_ptr<Tracer> Tracer::InMemory(const TracerLimits& limits) {
  auto memory = TraceFile::InMemory();
  TraceFile& file = *memory;
  const int number = *file.Join(kOnlyProcess, false, limits.file_bytes);
  return std::unique_ptr<Tracer>(new Tracer(file, number, limits, std::move(memory)));
}

Tracer::Tracer(TraceFile& file, int process, const TracerLimits& limits,
               std::unique_ptr<TraceFile> memory)
    : limits_(limits),
      steps_left_(limits.steps),
      memory_(std::move(memory)),
      file_(file),
      process_(process) {
  waiting_.reserve(limits_.waiting_events);
  taken_.reserve(limits_.waiting_events);
  thread_ = std::thread([this] { Run(); });
}

Tracer::~Tracer() { End(); }

void Tracer::End() {
  if (std::exchange(ended_, true)) return;
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  thread_.join();
  if (left_out_ > 0) LogWarning("the trace leaves out ", left_out_, " events, which came too fast");
  file_.Leave();
}

std::string Tracer::Text() {
  End();
  return memory_->Text();
}

void Tracer::AwaitSteps(double seconds_max) {
  std::unique_lock lock(mutex_);
  steps_came_.wait_for(lock, std::chrono::duration<double>(seconds_max),
                       [this] { return interrupted_ || steps_left_ == 0; });
}

void Tracer::Interrupt() {
  {
    std::lock_guard lock(mutex_);
    interrupted_ = true;
  }
  steps_came_.notify_all();
}

void Tracer::Step(const StepTrace& step) {
  Add({.kind = Event::Kind::kStep, .request = 0, .at_us = step.begin_us, .step = step});
}

void Tracer::RequestBegins(RequestId id, int64_t submitted_us) {
  Add({.kind = Event::Kind::kBegin, .request = id, .at_us = submitted_us, .step = {}});
}

void Tracer::RequestDraws(RequestId id, int64_t now_us) {
  Add({.kind = Event::Kind::kDraw, .request = id, .at_us = now_us, .step = {}});
}

void Tracer::RequestEnds(RequestId id, int64_t now_us) {
  Add({.kind = Event::Kind::kEnd, .request = id, .at_us = now_us, .step = {}});
}

void Tracer::Add(const Event& event) {
  std::lock_guard lock(mutex_);
  if (stopping_ || steps_left_ == 0) return;
  if (waiting_.size() == limits_.waiting_events) {
    ++left_out_;
  } else {
    waiting_.push_back(event);
  }
  if (event.kind == Event::Kind::kStep && --steps_left_ == 0) steps_came_.notify_all();
}

void Tracer::Run() {
  for (bool last = false; !last;) {
    {
      std::unique_lock lock(mutex_);
      wake_.wait_for(lock, kWritePeriod, [this] { return stopping_; });
      last = stopping_;
      waiting_.swap(taken_);
    }
    for (const Event& event : taken_) Write(event);
    taken_.clear();
    file_.Flush();
  }
}

void Tracer::Write(const Event& event) {
  std::array<char, kLineBytesMax> text;
  const auto line = [&](const char* format, auto... values) {
    const int length = std::snprintf(text.data(), text.size(), format, values...);
    file_.Add({text.data(), static_cast<size_t>(length)});
  };
  const auto number = [](auto value) { return static_cast<long long>(value); };
  if (event.kind != Event::Kind::kStep) {
    const bool draws = event.kind == Event::Kind::kDraw;
    const char phase = draws ? 'n' : event.kind == Event::Kind::kBegin ? 'b' : 'e';
    return line(
        // Engines number their requests by themselves, and an id counts in the whole file.
        "{\"name\":\"%s\",\"cat\":\"request\",\"ph\":\"%c\",\"id\":\"%d.%lld\",\"pid\":%d,"
        "\"tid\":%d,\"ts\":%lld}",
        draws ? "first token" : "request", phase, process_, number(event.request), process_,
        kRequestRow, number(event.at_us));
  }
  const StepTrace& step = event.step;
  const int row = kStepRow + static_cast<int>(step.step % kStepRows);
  line(
      "{\"name\":\"step\",\"ph\":\"X\",\"pid\":%d,\"tid\":%d,\"ts\":%lld,\"dur\":%lld,"
      "\"args\":{\"step\":%lld,\"tokens\":%d,\"prepare_us\":%lld,\"sample_us\":%lld}}",
      process_, row, number(step.begin_us), number(step.end_us - step.begin_us), number(step.step),
      step.tokens, number(step.prepare_us), number(step.sample_us));
  const auto phase = [&](const char* name, int64_t begin_us, int64_t end_us) {
    line("{\"name\":\"%s\",\"ph\":\"X\",\"pid\":%d,\"tid\":%d,\"ts\":%lld,\"dur\":%lld}", name,
         process_, row, number(begin_us), number(end_us - begin_us));
  };
  phase("plan", step.begin_us, step.begin_us + step.plan_us);
  phase("execute", step.launched_us, step.finished_us);
  phase("emit", step.finished_us, step.end_us);
}

}  // namespace sluice::engine
