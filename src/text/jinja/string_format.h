// Python's three ways to format: str % values, str.format and the format specification of a single
// value. They throw Failure where Python raises. For one rendering's thread.
#pragma once

#include <string>
#include <string_view>

#include "text/jinja/runtime.h"
#include "text/jinja/value.h"

namespace sluice::text::jinja {

// `format` % `arguments`. REQUIRES: format is a string
Value PercentFormat(Runtime& runtime, const Value& format, const Value& arguments);
// format.format(*arguments)
Value BraceFormat(Runtime& runtime, const Value& format, const Arguments& arguments);
// format.format_map(mapping)
Value BraceFormatMap(Runtime& runtime, const Value& format, const Value& mapping);
// format(value, spec)
std::string FormatValue(Runtime& runtime, const Value& value, std::string_view spec);

}  // namespace sluice::text::jinja
