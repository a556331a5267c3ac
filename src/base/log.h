// The process's log: one line per event on standard error, through spdlog. Library code logs here
// and nowhere else; it never prints and never exits. Thread-safe.
#pragma once

#include <string_view>

#include "base/str_cat.h"
#include "sluice/status.h"

namespace sluice {

enum class LogLevel { kDebug, kInfo, kWarning, kError, kOff };

void Log(LogLevel level, std::string_view message);
void SetLogLevel(LogLevel level);
// "debug", "info", "warning", "error", "off"; anything else is an error that lists them.
Result<LogLevel> ParseLogLevel(std::string_view name);

template <class... Parts>
void LogDebug(const Parts&... parts) {
  Log(LogLevel::kDebug, StrCat(parts...));
}
template <class... Parts>
void LogInfo(const Parts&... parts) {
  Log(LogLevel::kInfo, StrCat(parts...));
}
template <class... Parts>
void LogWarning(const Parts&... parts) {
  Log(LogLevel::kWarning, StrCat(parts...));
}
template <class... Parts>
void LogError(const Parts&... parts) {
  Log(LogLevel::kError, StrCat(parts...));
}

}  // namespace sluice
