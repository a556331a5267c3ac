// Numbers to text and back as Python writes and reads them. Any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "text/jinja/value.h"

namespace sluice::text::jinja {

// int(text): spaces around, a sign, the digits 0 to 9 (Python also reads those of other scripts).
// Nothing if malformed; throws Failure if out of range.
std::optional<Int> ParseInteger(std::string_view text);
// float(text). Nothing if malformed.
std::optional<double> ParseFloat(std::string_view text);

// repr(value): the shortest text that reads back as the same number.
std::string FormatFloat(double value);

}  // namespace sluice::text::jinja
