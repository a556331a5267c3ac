// The properties and mappings of characters as Python's str has them, from utf8proc. All strings
// given here must be UTF-8. Any thread.
#pragma once

#include <string>
#include <string_view>

#include "base/utf8.h"

namespace sluice::text::jinja {

bool IsSpace(char32_t c);
bool IsLineBreak(char32_t c);
bool IsNameChar(char32_t c);  // in identifiers
bool IsPrintable(char32_t c);

std::string_view StripLeft(std::string_view text);
std::string_view StripRight(std::string_view text);

// Full mappings: a character can become up to three.
std::string ToUpper(std::string_view text);
std::string ToLower(std::string_view text);
std::string ToTitle(std::string_view text);     // str.title: words are what cased letters make
std::string TitleWords(std::string_view text);  // the filter: words begin after spaces and -({[<
std::string Capitalize(std::string_view text);

}  // namespace sluice::text::jinja
