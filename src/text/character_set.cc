#include "text/character_set.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/str_cat.h"

namespace sluice::text {
namespace {

constexpr uint32_t kLast = 0x10ffff;
constexpr uint32_t kFirstSurrogate = 0xd800, kLastSurrogate = 0xdfff;

bool IsAlphanumeric(uint32_t c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

bool IsHexDigit(uint32_t c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'F') || (c >= 'a' && c <= 'f');
}

// Outside of [].
std::string Literal(uint32_t c) {
  if (c < 0x20 || c > 0x7e) return EscapedCharacter(c);
  const bool special =
      std::string_view(R"(^$.*+?\()[]{}|/)").find(static_cast<char>(c)) != std::string_view::npos;
  return StrCat(special ? "\\" : "", std::string(1, static_cast<char>(c)));
}

std::string InClass(uint32_t c) {
  return IsAlphanumeric(c) ? std::string(1, static_cast<char>(c)) : EscapedCharacter(c);
}

}  // namespace

std::string EscapedCharacter(uint32_t character) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string digits;
  for (int shift = 20; shift >= 0; shift -= 4) digits += kDigits[character >> shift & 15];
  return StrCat("\\u{", digits, "}");
}

CharacterSet::CharacterSet(std::initializer_list<Range> ranges) {
  for (const Range& range : ranges) Add(range.first, range.last);
}

void CharacterSet::Add(uint32_t first, uint32_t last) {
  // Those that touch it become one with it.
  auto touched = ranges_.upper_bound(first);
  if (touched != ranges_.begin() && std::prev(touched)->second + 1 >= first) --touched;
  while (touched != ranges_.end() && touched->first <= last + 1) {
    first = std::min(first, touched->first);
    last = std::max(last, touched->second);
    touched = ranges_.erase(touched);
  }
  ranges_.emplace_hint(touched, first, last);
}

void CharacterSet::Add(const CharacterSet& other) {
  for (const auto& [first, last] : other.ranges_) Add(first, last);
}

CharacterSet CharacterSet::Others() const {
  CharacterSet taken = *this;
  taken.Add(kFirstSurrogate, kLastSurrogate);
  CharacterSet others;
  uint32_t next = 0;
  for (const auto& [first, last] : taken.ranges_) {
    if (first > next) others.ranges_.emplace(next, first - 1);
    next = last + 1;
  }
  if (next <= kLast) others.ranges_.emplace(next, kLast);
  return others;
}

CharacterSet CharacterSet::Without(const CharacterSet& other) const {
  CharacterSet out = Others();
  out.Add(other);
  return out.Others();
}

std::string CharacterSet::Regex() const {
  CHECK(!empty());
  const auto& [only, end] = *ranges_.begin();
  if (ranges_.size() == 1 && only == end) return Literal(only);
  // One of the library's readers turns \u{00001f} into \x1f and then takes hexadecimal digits
  // behind it for more of the same, so that ranges which begin with those come first; and it does
  // not know a ^ that stands first from that of a class of other characters.
  std::vector<Range> ordered;
  for (const auto& [first, last] : ranges_) ordered.push_back({first, last});
  std::stable_partition(ordered.begin(), ordered.end(),
                        [](const Range& range) { return IsHexDigit(range.first); });
  if (ordered[0].first == '^') {
    if (ordered[0].last == '^') {
      std::rotate(ordered.begin(), ordered.begin() + 1, ordered.end());
    } else {
      ordered[0].first = '_';
      ordered.push_back({'^', '^'});
    }
  }
  std::string regex = "[";
  for (const Range& range : ordered) {
    regex += InClass(range.first);
    if (range.last > range.first + 1) regex += '-';
    if (range.last > range.first) regex += InClass(range.last);
  }
  return regex + "]";
}

const CharacterSet& EcmaDigits() {
  static const CharacterSet set = {{'0', '9'}};
  return set;
}

const CharacterSet& EcmaWordCharacters() {
  static const CharacterSet set = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
  return set;
}

const CharacterSet& EcmaSpaces() {
  static const CharacterSet set = {
      {0x09, 0x0d},     {0x20, 0x20},     {0xa0, 0xa0},     {0x1680, 0x1680}, {0x2000, 0x200a},
      {0x2028, 0x2029}, {0x202f, 0x202f}, {0x205f, 0x205f}, {0x3000, 0x3000}, {0xfeff, 0xfeff}};
  return set;
}

const CharacterSet& EcmaDot() {
  static const CharacterSet set =
      CharacterSet{{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}}.Others();
  return set;
}

const CharacterSet& JsonEscapedSet() {
  static const CharacterSet set = {{0x00, 0x1f}, {'"', '"'}, {'\\', '\\'}};
  return set;
}

}  // namespace sluice::text
