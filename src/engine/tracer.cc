#include "engine/tracer.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "base/str_cat.h"
#include "base/visible.h"

namespace sluice::engine {
namespace {

constexpr auto kWritePeriod = std::chrono::milliseconds(200);
constexpr size_t kLineBytesMax = 512;
// Rows of the picture. Steps whose device work overlaps stand on rows of their own.
constexpr int kRequestRow = 1, kStepRow = 2;
constexpr uint64_t kStepRows = 2;

}  // namespace

Result<std::unique_ptr<Tracer>> Tracer::Begin(const std::string& path, const TracerLimits& limits) {
  std::FILE* const file = std::fopen(path.c_str(), "wbe");
  if (file == nullptr) {
    return Status(StatusCode::kIo,
                  StrCat("the trace cannot be written to ", Quote(path), " (", std::strerror(errno),
                         "); name another file with --trace"),
                  "trace");
  }
  return std::unique_ptr<Tracer>(new Tracer(file, limits, nullptr));
}

std::unique_ptr<Tracer> Tracer::InMemory(const TracerLimits& limits) {
  auto memory = std::make_unique<MemoryFile>();
  std::FILE* const file = open_memstream(&memory->bytes, &memory->size);
  CHECK(file != nullptr, "open_memstream fails where memory has run out alone");
  return std::unique_ptr<Tracer>(new Tracer(file, limits, std::move(memory)));
}

Tracer::MemoryFile::~MemoryFile() { std::free(bytes); }

Tracer::Tracer(std::FILE* file, const TracerLimits& limits, std::unique_ptr<MemoryFile> memory)
    : limits_(limits), steps_left_(limits.steps), memory_(std::move(memory)), file_(file) {
  waiting_.reserve(limits_.waiting_events);
  taken_.reserve(limits_.waiting_events);
  constexpr std::string_view kHead =
      "[{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":1,\"args\":{\"name\":\"sluice\"}}";
  WriteLine(kHead.data(), static_cast<int>(kHead.size()));
  thread_ = std::thread([this] { Run(); });
}

Tracer::~Tracer() { End(); }

void Tracer::End() {
  if (file_ == nullptr) return;
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  thread_.join();
  if (left_out_ > 0) LogWarning("the trace leaves out ", left_out_, " events, which came too fast");
  std::fputs("\n]\n", file_);
  std::fclose(file_);
  file_ = nullptr;
}

std::string Tracer::Text() {
  End();
  return {memory_->bytes, memory_->size};
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
    std::fflush(file_);
  }
}

void Tracer::Write(const Event& event) {
  std::array<char, kLineBytesMax> text;
  const auto line = [&](const char* format, auto... values) {
    WriteLine(text.data(), std::snprintf(text.data(), text.size(), format, values...));
  };
  const auto number = [](auto value) { return static_cast<long long>(value); };
  if (event.kind != Event::Kind::kStep) {
    const bool draws = event.kind == Event::Kind::kDraw;
    const char phase = draws ? 'n' : event.kind == Event::Kind::kBegin ? 'b' : 'e';
    return line(
        ",\n{\"name\":\"%s\",\"cat\":\"request\",\"ph\":\"%c\",\"id\":%lld,\"pid\":1,\"tid\":%d,"
        "\"ts\":%lld}",
        draws ? "first token" : "request", phase, number(event.request), kRequestRow,
        number(event.at_us));
  }
  const StepTrace& step = event.step;
  const int row = kStepRow + static_cast<int>(step.step % kStepRows);
  line(
      ",\n{\"name\":\"step\",\"ph\":\"X\",\"pid\":1,\"tid\":%d,\"ts\":%lld,\"dur\":%lld,"
      "\"args\":{\"step\":%lld,\"tokens\":%d,\"prepare_us\":%lld,\"sample_us\":%lld}}",
      row, number(step.begin_us), number(step.end_us - step.begin_us), number(step.step),
      step.tokens, number(step.prepare_us), number(step.sample_us));
  const auto phase = [&](const char* name, int64_t begin_us, int64_t end_us) {
    line(",\n{\"name\":\"%s\",\"ph\":\"X\",\"pid\":1,\"tid\":%d,\"ts\":%lld,\"dur\":%lld}", name,
         row, number(begin_us), number(end_us - begin_us));
  };
  phase("plan", step.begin_us, step.begin_us + step.plan_us);
  phase("execute", step.launched_us, step.finished_us);
  phase("emit", step.finished_us, step.end_us);
}

void Tracer::WriteLine(const char* text, int length) {
  if (full_) return;
  bytes_ += length;
  full_ = bytes_ > limits_.file_bytes ||
          std::fwrite(text, 1, static_cast<size_t>(length), file_) != static_cast<size_t>(length);
  if (full_) LogWarning("the trace ends here: its file has reached its limit, or its disk is full");
}

}  // namespace sluice::engine
