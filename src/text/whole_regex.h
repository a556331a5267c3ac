// Regular expressions as the library takes them: of a whole text, without anchors. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/status.h"

namespace sluice::text {

// A regex that fits a whole text where `regex`, of ECMA-262, does, in the forms that all of the
// library's readers take alike (RegexRewriter). kInvalidArgument for what is no regex and for what
// the library would leave out: anchors elsewhere than at the ends of an alternative that is not in
// parentheses, looking around, references back, classes of Unicode.
Result<std::string> WholeRegex(std::string_view regex);
// The same of a JSON string without escapes in which `regex` fits a part, unless ^ and $ say which.
// A character or class is refused where JSON escapes all that it stands for.
Result<std::string> WholeStringRegex(std::string_view regex);
// `whole`, which one of these gave, of texts without `character`: kInvalidArgument where there is
// none, as far as can be told.
Result<std::string> RegexWithout(std::string_view whole, char character);
// A regex of JSON strings without escapes of so many characters; `most`: nothing is without end.
// REQUIRES: 0 <= least <= most
std::string StringLengthRegex(int64_t least, std::optional<int64_t> most);
// A regex of JSON strings without escapes that are none of `names`, which are UTF-8. Where these
// are many, compiling what tells them apart takes long: then of strings that begin otherwise.
std::string OtherStringsRegex(const std::vector<std::string>& names);

}  // namespace sluice::text
