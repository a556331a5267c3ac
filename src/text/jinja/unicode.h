// The properties and mappings of characters as Python's str has them. All strings given here must
// be UTF-8. Any thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/utf8.h"

namespace sluice::text::jinja {

bool IsSpace(char32_t c);
bool IsLineBreak(char32_t c);
bool IsNameChar(char32_t c);  // in identifiers
bool IsWordChar(char32_t c);  // \w of Python's re
bool IsAlpha(char32_t c);
bool IsDecimal(char32_t c);
bool IsDigitChar(char32_t c);  // also superscripts and the like
bool IsNumeric(char32_t c);
bool IsPrintable(char32_t c);
bool IsUpper(char32_t c);
bool IsLower(char32_t c);
bool IsTitle(char32_t c);
// The value of a decimal digit of any script, or -1.
int DecimalValue(char32_t c);

std::string_view StripLeft(std::string_view text);
std::string_view StripRight(std::string_view text);

// Full mappings: a character can become up to three.
std::string ToUpper(std::string_view text);
std::string ToLower(std::string_view text);
std::string ToTitle(std::string_view text);     // str.title
std::string Capitalize(std::string_view text);  // str.capitalize
std::string SwapCase(std::string_view text);
std::string CaseFold(std::string_view text);

}  // namespace sluice::text::jinja
