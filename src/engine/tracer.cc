#include "engine/tracer.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>

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
  return std::unique_ptr<Tracer>(new Tracer(file, limits));
}

Tracer::Tracer(std::FILE* file, const TracerLimits& limits) : limits_(limits), file_(file) {
  waiting_.reserve(limits_.waiting_events);
  taken_.reserve(limits_.waiting_events);
  constexpr std::string_view kHead =
      "[{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":1,\"args\":{\"name\":\"sluice\"}}";
  WriteLine(kHead.data(), static_cast<int>(kHead.size()));
  thread_ = std::thread([this] { Run(); });
}

Tracer::~Tracer() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  thread_.join();
  if (left_out_ > 0) LogWarning("the trace leaves out ", left_out_, " events, which came too fast");
  std::fputs("\n]\n", file_);
  std::fclose(file_);
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
  if (waiting_.size() == limits_.waiting_events) {
    ++left_out_;
    return;
  }
  waiting_.push_back(event);
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
