// Formats of strings as regexes. Pure functions.
#pragma once

#include <string>
#include <string_view>

namespace sluice::text {

// A regex of a whole JSON string without escapes that has the format; empty where the library that
// compiles schemas has one of its own which is as good. The library's rules for those here take a
// tenth of a second to compile, and as long for one mask.
std::string FormatRegex(std::string_view format);

}  // namespace sluice::text
