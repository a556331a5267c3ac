#include "text/unicode/python_str.h"

#include <utf8proc.h>

#include "text/unicode/normalization.h"

namespace sluice::text {
namespace {

utf8proc_category_t LibraryCategory(char32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

bool IsCased(char32_t c) {
  const auto code_point = static_cast<utf8proc_int32_t>(c);
  return utf8proc_isupper(code_point) || utf8proc_islower(code_point) ||
         LibraryCategory(c) == UTF8PROC_CATEGORY_LT;
}

char32_t SimpleUpper(char32_t c) {
  return static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c)));
}

char32_t SimpleTitle(char32_t c) {
  return static_cast<char32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(c)));
}

// The letters that a lower case letter is written with in upper case: itself, or what it is folded
// to for a comparison without case ("ss" for a sharp s). utf8proc maps to one character alone.
std::u32string Letters(char32_t c, bool is_lower) {
  utf8proc_int32_t folded[8];
  int boundary = 0;
  const auto code_point = static_cast<utf8proc_int32_t>(c);
  if (c < 0x80 || !is_lower) return {c};
  const auto count =
      utf8proc_decompose_char(code_point, folded, std::size(folded), UTF8PROC_CASEFOLD, &boundary);
  if (count < 2 || count > static_cast<utf8proc_ssize_t>(std::size(folded))) return {c};
  return {folded, folded + count};
}

void AppendUpper(char32_t c, std::string* out) {
  const bool is_lower = LibraryCategory(c) != UTF8PROC_CATEGORY_LU;
  for (char32_t letter : Letters(c, is_lower)) AppendUtf8(SimpleUpper(letter), out);
}

// The first letter of a word, of which one letter becomes a capital.
void AppendTitle(char32_t c, std::string* out) {
  const bool is_lower = LibraryCategory(c) == UTF8PROC_CATEGORY_LL &&
                        LibraryCategory(SimpleTitle(c)) != UTF8PROC_CATEGORY_LT;
  bool done = false;
  for (char32_t letter : Letters(c, is_lower)) {
    AppendUtf8(done ? letter : SimpleTitle(letter), out);
    done = done || IsCased(letter);
  }
}

// Characters that a word's case rules look through: Unicode's Case_Ignorable.
bool IsCaseIgnorable(char32_t c) {
  static constexpr std::u32string_view kOthers =
      U"'.:\u00B7\u0387\u055F\u05F4\u2018\u2019\u2024\u2027\uFE13\uFE52\uFE55\uFF07\uFF0E\uFF1A";
  constexpr uint32_t kCategories = 1u << UTF8PROC_CATEGORY_MN | 1u << UTF8PROC_CATEGORY_ME |
                                   1u << UTF8PROC_CATEGORY_CF | 1u << UTF8PROC_CATEGORY_LM |
                                   1u << UTF8PROC_CATEGORY_SK;
  return (kCategories >> LibraryCategory(c) & 1) != 0 ||
         kOthers.find(c) != std::u32string_view::npos;
}

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
    if (!IsCaseIgnorable(c)) return !IsCased(c);
  }
  return true;
}

// Appends the lower case of the character `c` that lies between `start` and `end` of `text`.
void AppendLower(std::string_view text, size_t start, size_t end, char32_t c, std::string* out) {
  constexpr char32_t kCapitalSigma = 0x3A3;
  if (c == kCapitalSigma) {
    AppendUtf8(IsFinalSigma(text, start, end) ? 0x3C2 : 0x3C3, out);
  } else {
    AppendLowercase(c, out);
  }
}

// `capital` of each character where `starts_word(the one before, or 0)` holds, lower case of
// others.
template <class StartsWord>
std::string MapWords(std::string_view text, void (*capital)(char32_t, std::string*),
                     StartsWord starts_word) {
  std::string out;
  out.reserve(text.size());
  char32_t before = 0;
  for (size_t place = 0; place < text.size();) {
    const size_t start = place;
    const char32_t c = DecodeUtf8(text, &place);
    if (starts_word(before)) {
      capital(c, &out);
    } else {
      AppendLower(text, start, place, c, &out);
    }
    before = c;
  }
  return out;
}

}  // namespace

bool IsSpace(char32_t c) { return (c >= 0x1C && c <= 0x1F) || IsWhitespace(c); }

bool IsLineBreak(char32_t c) {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 ||
         c == 0x2029;
}

bool IsNameChar(char32_t c) {
  if (c < 0x80) {
    return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  }
  // Letters, marks and numbers stand next to each other in utf8proc's list of categories.
  const utf8proc_category_t category = LibraryCategory(c);
  return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_PC &&
         category != UTF8PROC_CATEGORY_ME;
}

bool IsPrintable(char32_t c) {
  if (c < 0x7F) return c >= ' ';
  // What is no separator, control or unassigned character stands next to each other, too.
  const utf8proc_category_t category = LibraryCategory(c);
  return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_SO;
}

std::string ToUpper(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t place = 0; place < text.size();) AppendUpper(DecodeUtf8(text, &place), &out);
  return out;
}

std::string ToLower(std::string_view text) {
  return MapWords(text, AppendTitle, [](char32_t) { return false; });
}

std::string Capitalize(std::string_view text) {
  return MapWords(text, AppendTitle, [](char32_t before) { return before == 0; });
}

std::string ToTitle(std::string_view text) {
  return MapWords(text, AppendTitle,
                  [](char32_t before) { return before == 0 || !IsCased(before); });
}

std::string TitleWords(std::string_view text) {
  return MapWords(text, AppendUpper, [](char32_t before) {
    static constexpr std::u32string_view kOpeners = U"-({[<";
    return before == 0 || IsSpace(before) || kOpeners.find(before) != std::u32string_view::npos;
  });
}

}  // namespace sluice::text
