#include "text/jinja/unicode.h"

#include <utf8proc.h>

#include <algorithm>

#include "text/jinja/unicode_tables.h"

namespace sluice::text::jinja {
namespace {

utf8proc_category_t Category(char32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

bool InRanges(const CharRange* ranges, size_t count, char32_t c) {
  const CharRange* end = ranges + count;
  const CharRange* found = std::lower_bound(
      ranges, end, c, [](const CharRange& range, char32_t wanted) { return range.last < wanted; });
  return found != end && c >= found->first;
}

// Appends the full mapping of `c`, if it has one in the table.
bool AppendFull(const FullMapping* mappings, size_t count, char32_t c, std::string* out) {
  if (c < 0x80) return false;
  const FullMapping* end = mappings + count;
  const FullMapping* found = std::lower_bound(
      mappings, end, c,
      [](const FullMapping& mapping, char32_t wanted) { return mapping.from < wanted; });
  if (found == end || found->from != c) return false;
  for (char32_t to : found->to) {
    if (to != 0) AppendUtf8(to, out);
  }
  return true;
}

void AppendUpper(char32_t c, std::string* out) {
  if (AppendFull(kFullUpper, kFullUpperCount, c, out)) return;
  AppendUtf8(static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c))), out);
}

void AppendTitle(char32_t c, std::string* out) {
  if (AppendFull(kFullTitle, kFullTitleCount, c, out)) return;
  AppendUtf8(static_cast<char32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(c))), out);
}

bool IsCased(char32_t c) { return IsUpper(c) || IsLower(c) || IsTitle(c); }

// Characters that a word's case rules look through: Unicode's Case_Ignorable.
bool IsCaseIgnorable(char32_t c) {
  switch (Category(c)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK:
      return true;
    default:
      return c == '\'' || c == '.' || c == ':' || c == 0xB7 || c == 0x387 || c == 0x55F ||
             c == 0x5F4 || c == 0x2018 || c == 0x2019 || c == 0x2024 || c == 0x2027 ||
             c == 0xFE13 || c == 0xFE52 || c == 0xFE55 || c == 0xFF07 || c == 0xFF0E || c == 0xFF1A;
  }
}

constexpr char32_t kSigma = 0x3A3;

// Whether the capital sigma between `start` and `end` ends its word.
bool IsFinalSigma(std::string_view text, size_t start, size_t end) {
  bool cased_before = false;
  while (start > 0) {
    const char32_t c = DecodeUtf8Before(text, &start);
    if (IsCaseIgnorable(c)) continue;
    cased_before = IsCased(c);
    break;
  }
  if (!cased_before) return false;
  while (end < text.size()) {
    const char32_t c = DecodeUtf8(text, &end);
    if (IsCaseIgnorable(c)) continue;
    return !IsCased(c);
  }
  return true;
}

// Appends the lower case of the character `c` that lies between `start` and `end` of `text`.
void AppendLower(std::string_view text, size_t start, size_t end, char32_t c, std::string* out) {
  if (c == 0x130) {
    out->append("i\xCC\x87");
  } else if (c == kSigma) {
    AppendUtf8(IsFinalSigma(text, start, end) ? 0x3C2 : 0x3C3, out);
  } else {
    AppendUtf8(static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))), out);
  }
}

}  // namespace

bool IsSpace(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
         c == 0x205F || c == 0x3000;
}

bool IsLineBreak(char32_t c) {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 ||
         c == 0x2029;
}

bool IsNameChar(char32_t c) {
  if (c < 0x80) {
    return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  }
  switch (Category(c)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_PC:
      return true;
    default:
      return IsWordChar(c);
  }
}

bool IsWordChar(char32_t c) { return c == '_' || IsAlpha(c) || IsNumeric(c); }

bool IsAlpha(char32_t c) {
  const utf8proc_category_t category = Category(c);
  return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}

bool IsDecimal(char32_t c) { return Category(c) == UTF8PROC_CATEGORY_ND; }

bool IsDigitChar(char32_t c) {
  return IsDecimal(c) || InRanges(kDigitsNotDecimal, kDigitsNotDecimalCount, c);
}

bool IsNumeric(char32_t c) {
  const utf8proc_category_t category = Category(c);
  return (category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO) ||
         InRanges(kNumericLetters, kNumericLettersCount, c);
}

bool IsPrintable(char32_t c) {
  switch (Category(c)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return false;
    case UTF8PROC_CATEGORY_ZS:
      return c == ' ';
    default:
      return true;
  }
}

bool IsUpper(char32_t c) {
  return Category(c) == UTF8PROC_CATEGORY_LU || InRanges(kOtherUpper, kOtherUpperCount, c);
}
bool IsLower(char32_t c) {
  return Category(c) == UTF8PROC_CATEGORY_LL || InRanges(kOtherLower, kOtherLowerCount, c);
}
bool IsTitle(char32_t c) { return Category(c) == UTF8PROC_CATEGORY_LT; }

int DecimalValue(char32_t c) {
  const char32_t* end = kDecimalZeros + kDecimalZerosCount;
  const char32_t* found = std::upper_bound(kDecimalZeros, end, c);
  if (found == kDecimalZeros || c - found[-1] > 9) return -1;
  return static_cast<int>(c - found[-1]);
}

std::string_view StripLeft(std::string_view text) {
  size_t start = 0;
  while (start < text.size()) {
    size_t next = start;
    if (!IsSpace(DecodeUtf8(text, &next))) break;
    start = next;
  }
  return text.substr(start);
}

std::string_view StripRight(std::string_view text) {
  size_t end = text.size();
  while (end > 0) {
    size_t start = end;
    if (!IsSpace(DecodeUtf8Before(text, &start))) break;
    end = start;
  }
  return text.substr(0, end);
}

std::string ToUpper(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t place = 0; place < text.size();) AppendUpper(DecodeUtf8(text, &place), &out);
  return out;
}

std::string ToLower(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t place = 0; place < text.size();) {
    const size_t start = place;
    const char32_t c = DecodeUtf8(text, &place);
    AppendLower(text, start, place, c, &out);
  }
  return out;
}

std::string ToTitle(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  bool in_word = false;
  for (size_t place = 0; place < text.size();) {
    const size_t start = place;
    const char32_t c = DecodeUtf8(text, &place);
    if (in_word) {
      AppendLower(text, start, place, c, &out);
    } else {
      AppendTitle(c, &out);
    }
    in_word = IsCased(c);
  }
  return out;
}

std::string Capitalize(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t place = 0; place < text.size();) {
    const size_t start = place;
    const char32_t c = DecodeUtf8(text, &place);
    if (start == 0) {
      AppendTitle(c, &out);
    } else {
      AppendLower(text, start, place, c, &out);
    }
  }
  return out;
}

std::string SwapCase(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t place = 0; place < text.size();) {
    const size_t start = place;
    const char32_t c = DecodeUtf8(text, &place);
    if (IsUpper(c)) {
      AppendLower(text, start, place, c, &out);
    } else if (IsLower(c)) {
      AppendUpper(c, &out);
    } else {
      AppendUtf8(c, &out);
    }
  }
  return out;
}

std::string CaseFold(std::string_view text) {
  utf8proc_uint8_t* folded = nullptr;
  const utf8proc_ssize_t length =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                   static_cast<utf8proc_ssize_t>(text.size()), &folded, UTF8PROC_CASEFOLD);
  std::string out;
  if (length > 0) out.assign(reinterpret_cast<char*>(folded), static_cast<size_t>(length));
  free(folded);
  return out;
}

}  // namespace sluice::text::jinja
