// Characters as Python's str takes them, which chat templates rely on. The classes are those of
// utf8proc's Unicode. All strings given here must be UTF-8. Any thread.
#pragma once

#include <string>
#include <string_view>

#include "base/utf8.h"
#include "text/unicode/characters.h"

namespace sluice::text {

bool IsSpace(char32_t c);
bool IsLineBreak(char32_t c);
bool IsNameChar(char32_t c);  // in identifiers
bool IsPrintable(char32_t c);

inline std::string_view StripLeft(std::string_view text) { return StripLeft(text, IsSpace); }
inline std::string_view StripRight(std::string_view text) { return StripRight(text, IsSpace); }

// Full mappings: a character can become up to three.
std::string ToUpper(std::string_view text);
std::string ToLower(std::string_view text);
std::string ToTitle(std::string_view text);     // str.title: words are what cased letters make
std::string TitleWords(std::string_view text);  // the filter: words begin after spaces and -({[<
std::string Capitalize(std::string_view text);

}  // namespace sluice::text
