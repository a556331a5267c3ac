#include "text/jinja/numbers.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "text/jinja/failure.h"
#include "text/jinja/unicode.h"

namespace sluice::text::jinja {
namespace {

using Unsigned = unsigned __int128;

// Without spaces around and without a plus sign.
std::string_view Trimmed(std::string_view text) {
  text = StripLeft(StripRight(text));
  const bool has_plus = text.size() > 1 && text[0] == '+' && text[1] != '-';
  return has_plus ? text.substr(1) : text;
}

}  // namespace

std::optional<Int> ParseInteger(std::string_view raw) {
  constexpr Unsigned kMax = ~Unsigned{0} >> 1;
  std::string_view digits = Trimmed(raw);
  const bool negative = !digits.empty() && digits[0] == '-';
  if (negative) digits.remove_prefix(1);
  if (digits.empty()) return std::nullopt;
  Unsigned value = 0;
  for (char c : digits) {
    if (c < '0' || c > '9') return std::nullopt;
    const Unsigned digit = static_cast<Unsigned>(c - '0');
    if (value > (kMax - digit) / 10) Fail("an integer is larger than 127 bits");
    value = value * 10 + digit;
  }
  return negative ? -static_cast<Int>(value) : static_cast<Int>(value);
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

Int TruncateFloat(double value) {
  if (std::isnan(value)) Fail("cannot convert float NaN to integer");
  if (std::isinf(value)) Fail("cannot convert float infinity to integer");
  if (std::fabs(value) >= 0x1p126) Fail("an integer is larger than 127 bits");
  return static_cast<Int>(value);
}

std::string FormatInteger(Int value) {
  const bool negative = value < 0;
  Unsigned magnitude = negative ? ~static_cast<Unsigned>(value) + 1 : static_cast<Unsigned>(value);
  std::string out;
  do {
    out.push_back(static_cast<char>('0' + static_cast<int>(magnitude % 10)));
    magnitude /= 10;
  } while (magnitude != 0);
  if (negative) out.push_back('-');
  std::reverse(out.begin(), out.end());
  return out;
}

std::string FormatFloat(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[64];
  const auto end =
      std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific);
  std::string text(buffer, end.ptr);
  const size_t e = text.find('e');
  const int exponent = std::atoi(text.c_str() + e + 1);
  constexpr int kFixedMin = -4;
  constexpr int kFixedMax = 16;
  if (exponent < kFixedMin || exponent >= kFixedMax) return text;
  const auto fixed = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::fixed);
  std::string out(buffer, fixed.ptr);
  if (out.find('.') == std::string::npos) out += ".0";
  return out;
}

}  // namespace sluice::text::jinja
