#include "text/regex_rewriter.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <utility>

#include "base/str_cat.h"
#include "base/utf8.h"
#include "base/visible.h"

namespace sluice::text {
namespace {

constexpr int64_t kRepetitionsMax = 100'000;
// The library walks through them by its own stack.
constexpr size_t kGroupsWithinMax = 200;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// The number that `digits` are; -1: they are none, or of a number that is too large.
int64_t Number(std::string_view digits, int base) {
  int64_t number = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), number, base);
  const bool whole = error == std::errc() && end == digits.data() + digits.size();
  return whole && digits[0] != '-' ? number : -1;
}

std::string_view DigitsAt(std::string_view text) {
  const auto end = std::find_if_not(text.begin(), text.end(), IsDigit);
  return text.substr(0, static_cast<size_t>(end - text.begin()));
}

// Why an escape by this letter or digit is refused; empty: it is not.
std::string_view WhyNot(char c) {
  if (c == 'p' || c == 'P') return "a class of Unicode, which is not supported; list it in []";
  if (c == 'b' || c == 'B') return "a word's boundary, which is not supported";
  if (c == 'k' || IsDigit(c)) return "which refers back to a group, which is not supported";
  return IsLetter(c) ? "which is no escape of ECMA-262" : "";
}

// A character that is written by a letter; -1: it is none.
int64_t ControlOf(char c) {
  constexpr std::string_view kLetters = "tnvfr";
  const size_t at = kLetters.find(c);
  return at == std::string_view::npos ? -1 : static_cast<int64_t>("\t\n\v\f\r"[at]);
}

const CharacterSet* ClassOf(char c) {
  switch (std::tolower(static_cast<unsigned char>(c))) {
    case 'd':
      return &EcmaDigits();
    case 'w':
      return &EcmaWordCharacters();
    case 's':
      return &EcmaSpaces();
    default:
      return nullptr;
  }
}

}  // namespace

Status RegexRewriter::Refuse(std::string_view why) const {
  return InvalidArgument(StrCat("the regex ", Quote(Utf8Prefix(regex_, 100)), " ", why), "grammar");
}

Result<std::string> RegexRewriter::Run() {
  if (!IsValidUtf8(regex_)) return InvalidArgument("the regex is not valid UTF-8", "grammar");
  while (at_ < regex_.size()) SLUICE_RETURN_IF_ERROR(Step());
  if (!empty_groups_.empty()) return Refuse("has a ( that no ) closes");
  EndAlternative();
  if (alternatives_.size() == 1) return std::move(alternatives_[0]);
  std::string whole = "(";
  for (size_t i = 0; i < alternatives_.size(); ++i) {
    whole += StrCat(i > 0 ? "|" : "", alternatives_[i]);
  }
  return whole + ")";
}

void RegexRewriter::EndAlternative() {
  const std::string any = anywhere_ ? left_out_.Others().Regex() + "*" : "";
  alternatives_.push_back(StrCat(from_start_ ? "" : any, part_, to_end_ ? "" : any));
  part_.clear();
  from_start_ = to_end_ = false;
  before_ = Before::kNothing;
}

Status RegexRewriter::Step() {
  const char c = regex_[at_];
  const bool outside = empty_groups_.empty();
  if (c == '|') {
    ++at_;
    if (outside) {
      EndAlternative();
    } else {
      part_ += '|';
      empty_groups_.back() = false;
      before_ = Before::kNothing;
    }
    return OkStatus();
  }
  const bool begins = outside && part_.empty() && !from_start_;
  if (to_end_ || (c == '^' && !begins) || (c == '$' && !outside)) {
    return Refuse(
        "has a ^ or $ within; it may begin or end the regex, or one of its alternatives that is "
        "not in parentheses");
  }
  if (c == '^' || c == '$') {
    (c == '^' ? from_start_ : to_end_) = true;
    ++at_;
    return OkStatus();
  }
  if (c == '(') return OpenGroup();
  if (c == ')') return CloseGroup();
  if (std::string_view("*+?{").find(c) != std::string_view::npos) return Repeat();
  if (c == '[') return AddClass();
  const size_t begin = at_;
  CharacterSet set;
  int64_t single = -1;
  if (c == '.') {
    ++at_;
    set = EcmaDot();
  } else {
    SLUICE_RETURN_IF_ERROR(ReadMember(false, &set, &single));
  }
  return Add(set, regex_.substr(begin, at_ - begin));
}

Status RegexRewriter::Add(const CharacterSet& set, std::string_view spelled) {
  const CharacterSet left = set.Without(left_out_);
  if (left.empty()) {
    return Refuse(StrCat("has ", Quote(Utf8Prefix(spelled, 40)), ", ", why_));
  }
  part_ += left.Regex();
  if (!empty_groups_.empty()) empty_groups_.back() = false;
  before_ = Before::kCharacter;
  return OkStatus();
}

Status RegexRewriter::OpenGroup() {
  if (empty_groups_.size() >= kGroupsWithinMax) {
    return Refuse(StrCat("has more than ", kGroupsWithinMax, " groups within each other"));
  }
  ++at_;
  if (rest().starts_with("?=") || rest().starts_with("?!")) {
    return Refuse("looks ahead, which is not supported");
  }
  if (rest().starts_with("?<=") || rest().starts_with("?<!")) {
    return Refuse("looks behind, which is not supported");
  }
  if (rest().starts_with("?:")) {
    at_ += 2;
  } else if (rest().starts_with("?<") || rest().starts_with("?P<")) {
    const size_t end = rest().find('>');
    if (end == std::string_view::npos) return Refuse("has a group's name without an end");
    at_ += end + 1;
  } else if (rest().starts_with('?')) {
    return Refuse(StrCat("has a group that begins with ", Quote(Utf8Prefix(rest(), 2)),
                         ", which is not supported"));
  }
  if (!empty_groups_.empty()) empty_groups_.back() = false;
  empty_groups_.push_back(true);
  part_ += '(';
  before_ = Before::kNothing;
  return OkStatus();
}

Status RegexRewriter::CloseGroup() {
  if (empty_groups_.empty()) return Refuse("has a ) that no ( opens");
  ++at_;
  // One of the library's readers knows no group without anything in it.
  part_ += empty_groups_.back() ? "|)" : ")";
  empty_groups_.pop_back();
  before_ = Before::kGroup;
  return OkStatus();
}

Result<std::string> RegexRewriter::Counts() {
  const std::string_view least = DigitsAt(rest().substr(1));
  std::string_view behind = rest().substr(1 + least.size());
  const bool open = behind.starts_with(',');
  if (open) behind.remove_prefix(1);
  const std::string_view most = open ? DigitsAt(behind) : "";
  behind.remove_prefix(most.size());
  if (least.empty() || !behind.starts_with('}')) {
    return Refuse("has a { that begins no repetition; write \\{ for the character");
  }
  const std::string_view spelled = rest().substr(0, rest().find('}') + 1);
  const int64_t from = Number(least, 10), to = most.empty() ? from : Number(most, 10);
  if (from < 0 || to < 0 || from > kRepetitionsMax || to > kRepetitionsMax) {
    return Refuse(StrCat("repeats something more than ", kRepetitionsMax, " times"));
  }
  if (to < from) {
    return Refuse(StrCat("has ", Quote(spelled), ", whose first number is above its second"));
  }
  at_ += spelled.size();
  return StrCat("{", from, open ? "," : "", most.empty() ? "" : StrCat(to), "}");
}

Status RegexRewriter::Repeat() {
  const char c = regex_[at_];
  std::string counts(1, c);
  if (c == '{') {
    SLUICE_ASSIGN_OR_RETURN(counts, Counts());
  } else {
    ++at_;
  }
  if (before_ == Before::kNothing) {
    return Refuse(StrCat("has ", Quote(counts), " with nothing before it to repeat"));
  }
  if (before_ == Before::kRepetition) {
    return Refuse(StrCat("has ", Quote(counts), " behind another repetition"));
  }
  // As few as can be, or many: the same texts.
  if (rest().starts_with('?')) ++at_;
  // The library takes (ab*)? for (a?b*): it lets a text begin at the end of what it may leave out.
  // A group that comes up to once it takes rightly.
  part_ += c == '?' && before_ == Before::kGroup ? "{0,1}" : counts;
  before_ = Before::kRepetition;
  return OkStatus();
}

Status RegexRewriter::AddClass() {
  const size_t begin = at_++;
  const bool others = rest().starts_with('^');
  if (others) ++at_;
  CharacterSet set;
  while (!rest().starts_with(']')) {
    if (rest().empty()) return Refuse("has a [ that no ] closes");
    int64_t first = -1, last = -1;
    SLUICE_RETURN_IF_ERROR(ReadMember(true, &set, &first));
    if (!rest().starts_with('-') || rest().starts_with("-]") || rest().size() < 2) continue;
    if (first < 0) continue;  // behind a class a - is itself, and so it is before one
    const size_t end = ++at_;
    SLUICE_RETURN_IF_ERROR(ReadMember(true, &set, &last));
    if (last >= 0 && last < first) {
      return Refuse(StrCat("has a range up to ", Quote(regex_.substr(end, at_ - end)),
                           " that begins behind that character"));
    }
    if (last < 0) set.Add('-', '-');
    if (last >= 0) set.Add(static_cast<uint32_t>(first), static_cast<uint32_t>(last));
  }
  ++at_;
  if (others) set = set.Others();
  if (set.empty()) return Refuse("has a class without characters");
  return Add(set, regex_.substr(begin, at_ - begin));
}

Status RegexRewriter::ReadMember(bool in_class, CharacterSet* set, int64_t* single) {
  if (rest()[0] == '\\') {
    SLUICE_RETURN_IF_ERROR(ReadEscape(in_class, set, single));
  } else {
    *single = DecodeUtf8(regex_, &at_);
  }
  if (*single >= 0) set->Add(static_cast<uint32_t>(*single), static_cast<uint32_t>(*single));
  return OkStatus();
}

Status RegexRewriter::ReadEscape(bool in_class, CharacterSet* set, int64_t* single) {
  const std::string_view escape = rest();
  if (escape.size() < 2) return Refuse("ends with a backslash");
  const char c = escape[1];
  if (c == 'x' || c == 'u') {
    SLUICE_ASSIGN_OR_RETURN(*single, ReadCodePoint());
    return OkStatus();
  }
  if (const CharacterSet* known = ClassOf(c)) {
    at_ += 2;
    set->Add(IsLetter(c) && c < 'a' ? known->Others() : *known);
    return OkStatus();
  }
  *single = ControlOf(c);
  if (c == '0' && (escape.size() < 3 || !IsDigit(escape[2]))) *single = 0;
  if (c == 'b' && in_class) *single = '\b';
  if (*single >= 0) {
    at_ += 2;
    return OkStatus();
  }
  if (c == 'c' && escape.size() > 2 && IsLetter(escape[2])) {
    *single = escape[2] % 32;
    at_ += 3;
    return OkStatus();
  }
  if (const std::string_view why = WhyNot(c); !why.empty()) {
    return Refuse(StrCat("has the escape ", Quote(escape.substr(0, 2)), ", ", why));
  }
  ++at_;
  *single = DecodeUtf8(regex_, &at_);
  return OkStatus();
}

// Of \x and two digits, \u and four, two of those that are a pair of surrogates, or \u{ and digits
// up to }.
Result<uint32_t> RegexRewriter::ReadCodePoint() {
  const std::string_view escape = rest();
  if (escape.starts_with("\\x{")) return Refuse("has \\x{, which is written \\u{ here");
  const bool braces = escape.starts_with("\\u{");
  const size_t end = braces ? escape.find('}') : std::string_view::npos;
  const size_t digits = end != std::string_view::npos ? end - 3
                        : braces                      ? 0
                        : escape[1] == 'x'            ? 2
                                                      : 4;
  size_t size = digits + (braces ? 4 : 2);
  const auto hex = [](std::string_view text, size_t count) {
    return text.size() < count ? -1 : Number(text.substr(0, count), 16);
  };
  int64_t character = digits == 0 ? -1 : hex(escape.substr(braces ? 3 : 2), digits);
  if (!braces && character >= 0xd800 && character <= 0xdbff &&
      escape.substr(6).starts_with("\\u")) {
    const int64_t low = hex(escape.substr(8), 4);
    if (low >= 0xdc00 && low <= 0xdfff) {
      character = 0x10000 + ((character - 0xd800) << 10) + (low - 0xdc00);
      size += 6;
    }
  }
  if (character < 0 || character > 0x10ffff || (character >= 0xd800 && character <= 0xdfff)) {
    return Refuse(
        StrCat("has the escape ", Quote(Utf8Prefix(escape, 12)), ", which is no character"));
  }
  at_ += size;
  return static_cast<uint32_t>(character);
}

}  // namespace sluice::text
