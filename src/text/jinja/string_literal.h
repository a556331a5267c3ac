// Escapes in the string constants of a template. Any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace sluice::text::jinja {

// The characters that the inside of a quoted constant means, by Python's rules for unicode_escape.
// Nothing, and a sentence in `problem`, for a malformed escape or one that is no character.
std::optional<std::string> DecodeStringLiteral(std::string_view inside, std::string* problem);

}  // namespace sluice::text::jinja
