#include "text/jinja/numbers.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstdlib>

#include "text/jinja/failure.h"
#include "text/unicode/python_str.h"

namespace sluice::text::jinja {
namespace {

// Without spaces around and without a plus sign.
std::string_view Trimmed(std::string_view text) {
  text = StripLeft(StripRight(text));
  const bool has_plus = text.size() > 1 && text[0] == '+' && text[1] != '-';
  return has_plus ? text.substr(1) : text;
}

}  // namespace

std::optional<Int> ParseInteger(std::string_view raw) {
  std::string_view digits = Trimmed(raw);
  const bool negative = !digits.empty() && digits[0] == '-';
  if (negative) digits.remove_prefix(1);
  if (digits.empty()) return std::nullopt;
  Int value = 0;
  for (char c : digits) {
    if (c < '0' || c > '9') return std::nullopt;
    if (__builtin_mul_overflow(value, Int{10}, &value) ||
        __builtin_add_overflow(value, Int{c - '0'}, &value)) {
      Fail("an integer is larger than 127 bits");
    }
  }
  return negative ? -value : value;
}

std::optional<double> ParseFloat(std::string_view raw) {
  const std::string_view text = Trimmed(raw);
  const char* const end = text.data() + text.size();
  double value = 0;
  const auto read = std::from_chars(text.data(), end, value);
  if (read.ptr != end || read.ec == std::errc::invalid_argument) return std::nullopt;
  // What does not fit is infinity or zero.
  if (read.ec == std::errc::result_out_of_range)
    return std::strtod(std::string(text).c_str(), nullptr);
  return value;
}

std::string FormatFloat(double value) {
  if (std::isnan(value)) return "nan";
  std::string text = fmt::to_string(value);
  const bool is_whole = text.find_first_not_of("-0123456789") == std::string::npos;
  return is_whole ? text + ".0" : text;
}

}  // namespace sluice::text::jinja
