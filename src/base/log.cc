#include "base/log.h"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>

#include <cstdio>
#include <functional>
#include <mutex>
#include <string>

#include "base/json.h"
#include "base/log_fields.h"
#include "base/log_options.h"
#include "base/visible.h"

namespace sluice {
namespace {

constexpr const char* kText = "%Y-%m-%d %H:%M:%S.%e %l %v";
constexpr const char* kTime = "%Y-%m-%dT%H:%M:%S.%eZ";
// Goes to the beginning of a terminal's line and empties it.
constexpr const char* kEmptyLine = "\r\x1b[K";

spdlog::level::level_enum ToSpdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::off;
}

void Put(std::string_view text) {
  // One call, so that lines of several processes on one terminal stay whole.
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

// Standard error, with the line of progress below what is logged.
class Sink : public spdlog::sinks::base_sink<std::mutex> {
 public:
  void SetFormat(LogFormat format) {
    std::lock_guard lock(mutex_);
    format_ = format;
  }
  // What the line that this thread logs next has beside its message; null: nothing.
  using AskFields = std::function<OrderedJson()>;
  static const AskFields*& Fields() {
    static thread_local const AskFields* fields = nullptr;
    return fields;
  }
  void Show(std::string_view line) {
    std::lock_guard lock(mutex_);
    if (progress_.empty() && line.empty()) return;
    progress_ = line;
    Put(kEmptyLine + progress_);
  }

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    std::string text = progress_.empty() ? "" : kEmptyLine;
    text += format_ == LogFormat::kText ? Formatted(&text_, message) : JsonLine(message);
    Put(text + progress_);
  }
  void flush_() override {}

 private:
  static std::string Formatted(spdlog::pattern_formatter* formatter,
                               const spdlog::details::log_msg& message) {
    spdlog::memory_buf_t buffer;
    formatter->format(message, buffer);
    return {buffer.data(), buffer.size()};
  }
  std::string JsonLine(const spdlog::details::log_msg& message) {
    const auto level = spdlog::level::to_string_view(message.level);
    OrderedJson line;
    line["time"] = Formatted(&time_, message);
    line["level"] = std::string(level.data(), level.size());
    line["message"] = std::string(message.payload.data(), message.payload.size());
    if (Fields() != nullptr) line.update((*Fields())());
    return DumpJson(line) + "\n";
  }

  LogFormat format_ = LogFormat::kText;
  std::string progress_;
  spdlog::pattern_formatter text_{kText};
  spdlog::pattern_formatter time_{kTime, spdlog::pattern_time_type::utc, ""};
};

struct Process {
  std::shared_ptr<Sink> sink = std::make_shared<Sink>();
  spdlog::logger logger{"sluice", sink};
};

Process& TheProcess() {
  static Process* const process = new Process;  // outlives the threads that log at the end
  return *process;
}

}  // namespace

void Log(LogLevel level, std::string_view message) {
  TheProcess().logger.log(ToSpdlog(level), "{}", Visible(message));
}

void LogWithFields(LogLevel level, std::string_view message,
                   const std::function<OrderedJson()>& fields) {
  // The sink writes the line before the call returns.
  Sink::Fields() = &fields;
  Log(level, message);
  Sink::Fields() = nullptr;
}

void SetLog(LogLevel least, LogFormat format) {
  TheProcess().logger.set_level(ToSpdlog(least));
  TheProcess().sink->SetFormat(format);
}

void ShowProgress(std::string_view line) { TheProcess().sink->Show(line); }

}  // namespace sluice
