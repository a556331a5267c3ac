// How the process's log is written: which lines, in which form, and a line of progress that stays
// below them. For the program's commands; library code only logs (base/log.h). Thread-safe.
#pragma once

#include <string>

#include "base/log.h"

namespace sluice {

enum class LogFormat { kText, kJson };

// From here on only lines of `least` and above are written. In JSON each is an object with "time"
// (UTC, ISO 8601), "level" and "message", and what LogWithFields gives.
void SetLog(LogLevel least, LogFormat format);

// Shows a line without an end on standard error, which must be a terminal. It takes the place of
// the last one; log lines that come meanwhile stand above it. Empty: takes it away.
void ShowProgress(std::string_view line);

}  // namespace sluice
