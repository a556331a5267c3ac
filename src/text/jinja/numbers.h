// Numbers to text and back as Python writes and reads them. Any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "text/jinja/value.h"

namespace sluice::text::jinja {

// int(text, base): spaces around, a sign, single underscores between digits, digits of any script;
// base 0 takes the prefix 0x, 0o or 0b. Nothing if malformed; throws Failure if out of range.
std::optional<Int> ParseInteger(std::string_view text, int base);
// float(text). Nothing if malformed.
std::optional<double> ParseFloat(std::string_view text);
// int(value) of a float; throws Failure for NaN, infinity and numbers out of range.
Int TruncateFloat(double value);

std::string FormatInteger(Int value);
// In base 2, 8, 10 or 16, without prefix.
std::string FormatInteger(Int value, int base, bool upper);
// repr(value): the shortest text that reads back as the same number.
std::string FormatFloat(double value);
// value rounded to `digits` decimal places, half to even, as round() does.
double RoundFloat(double value, int64_t digits);

}  // namespace sluice::text::jinja
