#include "base/part_name.h"

#include <algorithm>
#include <charconv>

#include "base/str_cat.h"

namespace sluice {
namespace {

constexpr size_t kDigits = 5;
constexpr std::string_view kOf = "-of-";

// Five digits, no sign; 0 where it is none.
int Number(std::string_view text) {
  if (text.find_first_not_of("0123456789") != text.npos) return 0;
  int number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

std::string Digits(int number) {
  const std::string digits = std::to_string(number);
  return std::string(kDigits - std::min(kDigits, digits.size()), '0') + digits;
}

}  // namespace

std::string PartName::Of(int other) const {
  return StrCat(stem, "-", Digits(other), kOf, Digits(count), suffix);
}

std::optional<PartName> ParsePartName(std::string_view name) {
  constexpr size_t kNumbers = 1 + kDigits + kOf.size() + kDigits;
  const size_t dot = name.rfind('.');
  if (dot == name.npos || dot <= kNumbers) return std::nullopt;
  const std::string_view numbers = name.substr(dot - kNumbers, kNumbers);
  if (numbers[0] != '-' || numbers.substr(1 + kDigits, kOf.size()) != kOf) return std::nullopt;
  PartName part{.stem = name.substr(0, dot - kNumbers),
                .number = Number(numbers.substr(1, kDigits)),
                .count = Number(numbers.substr(kNumbers - kDigits)),
                .suffix = name.substr(dot)};
  if (part.number < 1 || part.number > part.count) return std::nullopt;
  return part;
}

}  // namespace sluice
