#include "text/whole_regex.h"

#include <algorithm>
#include <span>
#include <utility>

#include "base/str_cat.h"
#include "base/utf8.h"
#include "text/character_set.h"
#include "text/regex_rewriter.h"

namespace sluice::text {
namespace {

// Characters of names, each of which takes some 0.7 ms to compile over a vocabulary of 128,000
// tokens, and 35 KB of masks.
constexpr size_t kToldApartMax = 48;
// Of a repetition that the library writes out; it refuses more within a pattern.
constexpr int64_t kWrittenOutMax = 120;

// Characters of a string that JSON does not escape, but for those of `left_out`.
std::string OtherCharacters(const std::string& left_out) {
  return StrCat(R"([^"\\\x00-\x1f)", left_out, "]");
}

// Strings behind the first `at` characters, which all of `names` share. Ascending.
std::string OthersBehind(std::span<const std::u32string> names, size_t at) {
  std::string parts, first_characters;
  const bool is_name = !names.empty() && names[0].size() == at;
  if (is_name) names = names.subspan(1);
  while (!names.empty()) {
    size_t same = 1;
    while (same < names.size() && names[same][at] == names[0][at]) ++same;
    const std::string character = EscapedCharacter(names[0][at]);
    first_characters += character;
    parts += StrCat("|", character, OthersBehind(names.first(same), at + 1));
    names = names.subspan(same);
  }
  const std::string longer = StrCat(OtherCharacters(first_characters), OtherCharacters(""), "*");
  return StrCat("(", longer, parts, is_name ? ")" : "|)");
}

// Up to `most` of a set of characters. Few of the alternatives can hold at once, so that a position
// in them is few states.
std::string UpTo(const std::string& characters, int64_t most) {
  if (most == 0) return "";
  if (most <= kWrittenOutMax) return StrCat(characters, "{0,", most, "}");
  return StrCat("(", characters, "{0,", kWrittenOutMax - 1, "}|", characters, "{", kWrittenOutMax,
                "}", UpTo(characters, most - kWrittenOutMax), ")");
}

}  // namespace

Result<std::string> WholeRegex(std::string_view regex) {
  static const CharacterSet none;
  return RegexRewriter(regex, none, "", /*anywhere=*/false).Run();
}

Result<std::string> WholeStringRegex(std::string_view regex) {
  return RegexRewriter(regex, JsonEscapedSet(),
                       "a quote, a backslash or a control character, which JSON escapes",
                       /*anywhere=*/true)
      .Run();
}

Result<std::string> RegexWithout(std::string_view whole, char character) {
  const auto left_out = static_cast<uint32_t>(character);
  return RegexRewriter(whole, {{left_out, left_out}}, "which cannot be written here",
                       /*anywhere=*/false)
      .Run();
}

std::string StringLengthRegex(int64_t least, std::optional<int64_t> most) {
  const std::string characters = OtherCharacters("");
  std::string regex;
  for (int64_t left = least; left > 0; left -= kWrittenOutMax) {
    regex += StrCat(characters, "{", std::min(left, kWrittenOutMax), "}");
  }
  return regex + (most ? UpTo(characters, *most - least) : characters + "*");
}

std::string OtherStringsRegex(const std::vector<std::string>& names) {
  std::vector<std::u32string> spelled;
  for (const std::string& name : names) {
    std::u32string characters;
    bool escaped = false;
    for (size_t at = 0; at < name.size();) {
      characters += DecodeUtf8(name, &at);
      escaped = escaped || characters.back() < 0x20 || characters.back() == '"' ||
                characters.back() == '\\';
    }
    if (!escaped) spelled.push_back(std::move(characters));
  }
  size_t characters = 0;
  for (const std::u32string& name : spelled) characters += name.size();
  if (characters > kToldApartMax) {
    std::string first_characters;
    for (const std::u32string& name : spelled) {
      if (!name.empty()) first_characters += EscapedCharacter(name[0]);
    }
    return StrCat(OtherCharacters(first_characters), OtherCharacters(""), "*");
  }
  std::sort(spelled.begin(), spelled.end());
  spelled.erase(std::unique(spelled.begin(), spelled.end()), spelled.end());
  return OthersBehind(spelled, 0);
}

}  // namespace sluice::text
