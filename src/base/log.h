// The process's log: one line per event on standard error, through spdlog; what a message takes
// from outside can neither end the line nor reach a terminal as a control character. Where standard
// error cannot be written, lines are dropped. Library code logs here and nowhere else; it never
// prints and never exits. Thread-safe.
#pragma once

#include <string_view>

#include "base/str_cat.h"

namespace sluice {

enum class LogLevel { kInfo, kWarning, kError };

void Log(LogLevel level, std::string_view message);

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
