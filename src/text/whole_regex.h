// Regular expressions as the library takes them: of a whole text, without anchors. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/status.h"

namespace sluice::text {

// A regex that fits a whole text where `regex` does. kInvalidArgument for what the library would
// leave out: anchors elsewhere than at the ends of an alternative that is not in parentheses, and
// looking ahead.
Result<std::string> WholeRegex(std::string_view regex);
// The same of a JSON string in which `regex` fits a part, unless ^ and $ say which. Characters that
// JSON escapes are refused outside of [].
Result<std::string> WholeStringRegex(std::string_view regex);
// A regex of JSON strings without escapes of so many characters; `most`: nothing is without end.
// REQUIRES: 0 <= least <= most
std::string StringLengthRegex(int64_t least, std::optional<int64_t> most);
// A regex of JSON strings without escapes that are none of `names`, which are UTF-8. Where these
// are many, compiling what tells them apart takes long: then of strings that begin otherwise.
std::string OtherStringsRegex(const std::vector<std::string>& names);

}  // namespace sluice::text
