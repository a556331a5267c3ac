// Lines of the log that also have their facts as fields, for programs that read it. Thread-safe.
#pragma once

#include <string_view>

#include "base/json.h"
#include "base/log.h"

namespace sluice {

// As Log. In JSON the members of the object `fields` stand behind "message"; a text line has the
// message alone, so it should say what people need of them.
// REQUIRES: none is called "time", "level" or "message".
void LogWithFields(LogLevel level, std::string_view message, const OrderedJson& fields);

}  // namespace sluice
