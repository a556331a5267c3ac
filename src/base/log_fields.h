// Lines of the log that also have their facts as fields, for programs that read it. Thread-safe.
#pragma once

#include <functional>
#include <string_view>

#include "base/json.h"
#include "base/log.h"

namespace sluice {

// As Log. In JSON the members of the object that `fields` gives stand behind "message"; a text line
// has the message alone, so it should say what people need of them, and `fields` is not called. It
// may not log. REQUIRES: none of them is called "time", "level" or "message".
void LogWithFields(LogLevel level, std::string_view message,
                   const std::function<OrderedJson()>& fields);

}  // namespace sluice
