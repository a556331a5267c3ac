#include "text/whole_regex.h"

#include <algorithm>
#include <charconv>
#include <span>
#include <utility>

#include "base/str_cat.h"
#include "base/utf8.h"
#include "base/visible.h"

namespace sluice::text {
namespace {

// Characters of names, each of which takes some 0.7 ms to compile over a vocabulary of 128,000
// tokens, and 35 KB of masks.
constexpr size_t kToldApartMax = 48;
constexpr int64_t kRepetitionsMax = 100'000;
// Of a repetition that the library writes out; it refuses more within a pattern.
constexpr int64_t kWrittenOutMax = 120;

Status Refuse(std::string_view regex, std::string_view why) {
  return InvalidArgument(StrCat("the regex ", Quote(Utf8Prefix(regex, 100)), " ", why), "grammar");
}

// One alternative without its anchors.
std::string Whole(std::string_view part, bool anywhere, bool ends_with_anchor) {
  std::string whole;
  if (part.starts_with('^')) {
    part.remove_prefix(1);
  } else if (anywhere) {
    whole += ".*";
  }
  if (ends_with_anchor) part.remove_suffix(1);
  whole += part;
  if (anywhere && !ends_with_anchor) whole += ".*";
  return whole;
}

// Of the repetition that begins at `at`: the library counts in 32 bits.
Status CheckCounts(std::string_view regex, size_t at) {
  const size_t end = std::min(regex.find('}', at), regex.size());
  int64_t count = 0;
  for (const char c : regex.substr(at, end - at)) {
    count = c >= '0' && c <= '9' ? count * 10 + (c - '0') : 0;
    if (count > kRepetitionsMax) {
      return Refuse(regex, StrCat("repeats something more than ", kRepetitionsMax, " times"));
    }
  }
  return OkStatus();
}

// Of the escape that begins at `at`: \x and two digits, \u and four, or \u{ and digits up to }.
Status CheckCharacter(std::string_view regex, size_t at) {
  const std::string_view rest = regex.substr(at + 1);
  if (rest.starts_with("x{")) return Refuse(regex, "has \\x{, which is written \\u{ here");
  if (!rest.starts_with('u')) return OkStatus();
  const bool braces = rest.starts_with("u{");
  const std::string_view digits = braces ? rest.substr(2, rest.find('}') - 2) : rest.substr(1, 4);
  uint32_t character = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), character, 16);
  const bool is_one = error == std::errc() && end == digits.data() + digits.size() &&
                      character <= 0x10ffff && (character < 0xd800 || character > 0xdfff);
  if (is_one) return OkStatus();
  return Refuse(regex, StrCat("has the escape ", Quote(Utf8Prefix(regex.substr(at), 12)),
                              ", which is no character"));
}

// In a JSON string: \n and the like, the quote and the backslash are escaped there.
bool IsEscapedInJson(std::string_view rest) {
  if (rest[0] == '"') return true;
  return rest[0] == '\\' && rest.size() > 1 &&
         std::string_view("\\\"nrtfv0").find(rest[1]) != std::string_view::npos;
}

// The library takes (ab*)? for (a?b*): it lets a text begin at the end of what it may leave out. A
// group that comes up to once it takes rightly.
std::string WithoutOptionalGroups(std::string_view regex) {
  std::string rewritten;
  bool in_class = false, behind_group = false;
  for (size_t i = 0; i < regex.size(); ++i) {
    const char c = regex[i];
    if (c == '?' && behind_group) {
      rewritten += "{0,1}";
      // As few as can be, or many: the same texts.
      if (i + 1 < regex.size() && regex[i + 1] == '?') ++i;
      behind_group = false;
      continue;
    }
    behind_group = c == ')' && !in_class;
    rewritten += c;
    if (c == '\\' && i + 1 < regex.size()) {
      rewritten += regex[++i];
    } else if (in_class) {
      in_class = c != ']';
    } else {
      in_class = c == '[';
    }
  }
  return rewritten;
}

Result<std::string> Rewritten(std::string_view regex, bool anywhere) {
  std::vector<std::string> alternatives;
  size_t begin = 0;
  int depth = 0;
  bool in_class = false;
  bool anchored = false;  // the last character was a $ that may end an alternative
  const auto end_alternative = [&](size_t end) {
    const std::string_view part = regex.substr(begin, end - begin);
    alternatives.push_back(Whole(part, anywhere, anchored && part.ends_with('$')));
    begin = end + 1;
    anchored = false;
  };
  for (size_t i = 0; i < regex.size(); ++i) {
    const char c = regex[i];
    if (c == '|' && depth == 0 && !in_class) {
      end_alternative(i);
      continue;
    }
    const bool misplaced =
        anchored || (c == '^' && (depth > 0 || i != begin)) || (c == '$' && depth > 0);
    if (misplaced && !in_class) {
      return Refuse(regex,
                    "has a ^ or $ within; it may begin or end the regex, or one of its "
                    "alternatives that is not in parentheses");
    }
    if (anywhere && !in_class && IsEscapedInJson(regex.substr(i))) {
      return Refuse(regex, "has a quote, a backslash or a control character, which JSON escapes");
    }
    if (c == '\\') {
      SLUICE_RETURN_IF_ERROR(CheckCharacter(regex, i));
      ++i;
    } else if (in_class) {
      in_class = c != ']';
    } else if (c == '[') {
      in_class = true;
    } else if (c == '(') {
      ++depth;
      const std::string_view rest = regex.substr(i);
      if (rest.starts_with("(?=") || rest.starts_with("(?!")) {
        return Refuse(regex, "looks ahead, which is not supported");
      }
    } else if (c == ')') {
      --depth;
    } else if (c == '$') {
      anchored = true;
    } else if (c == '{') {
      SLUICE_RETURN_IF_ERROR(CheckCounts(regex, i));
    }
  }
  end_alternative(regex.size());
  if (alternatives.size() == 1) return WithoutOptionalGroups(alternatives[0]);
  std::string whole;
  for (const std::string& alternative : alternatives) {
    whole += StrCat(&alternative == &alternatives[0] ? "(" : "|", alternative);
  }
  return WithoutOptionalGroups(whole + ")");
}

// Characters of a string that JSON does not escape, but for those of `left_out`.
std::string OtherCharacters(const std::string& left_out) {
  return StrCat(R"([^"\\\x00-\x1f)", left_out, "]");
}

std::string EscapedCharacter(uint32_t c) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string digits;
  for (int shift = 20; shift >= 0; shift -= 4) digits += kDigits[c >> shift & 15];
  return StrCat("\\u{", digits, "}");
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

Result<std::string> WholeRegex(std::string_view regex) { return Rewritten(regex, false); }

// The library keeps a string from what JSON escapes only where the regex is printable ASCII.
Result<std::string> WholeStringRegex(std::string_view regex) {
  SLUICE_ASSIGN_OR_RETURN(const std::string whole, Rewritten(regex, true));
  std::string ascii;
  for (size_t at = 0; at < whole.size();) {
    const uint32_t character = DecodeUtf8(whole, &at);
    if (character >= 0x20 && character < 0x7f) {
      ascii += static_cast<char>(character);
    } else {
      ascii += EscapedCharacter(character);
    }
  }
  return ascii;
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
