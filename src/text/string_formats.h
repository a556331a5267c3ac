// Formats of strings as regexes. Pure functions.
#pragma once

#include <string>
#include <string_view>

namespace sluice::text {

// A regex, in the library's form, of a whole JSON string without escapes that has the format of
// that name in JSON Schema; empty: no such format holds. All that fits is valid. What is valid and
// does not fit: leap seconds but those of UTC, quoted mailboxes, addresses in brackets, and what
// JSON escapes. A hostname's length in all is not held to, nor that of the labels of a mailbox.
std::string FormatRegex(std::string_view format);

}  // namespace sluice::text
