#include "text/jinja/numbers.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "text/jinja/failure.h"
#include "text/jinja/unicode.h"

namespace sluice::text::jinja {
namespace {

using Unsigned = unsigned __int128;

std::string_view Strip(std::string_view text) { return StripLeft(StripRight(text)); }

// Decimal digits of every script as ASCII; other characters stay.
std::string ToAsciiDigits(std::string_view text) {
  std::string out;
  for (size_t place = 0; place < text.size();) {
    const char32_t c = DecodeUtf8(text, &place);
    const int digit = c < 0x80 ? -1 : DecimalValue(c);
    if (digit >= 0) {
      out.push_back(static_cast<char>('0' + digit));
    } else {
      AppendUtf8(c, &out);
    }
  }
  return out;
}

int DigitValue(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  c = static_cast<char>(c | 0x20);
  return c >= 'a' && c <= 'z' ? c - 'a' + 10 : 99;
}

int PrefixBase(std::string_view text) {
  if (text.size() < 2 || text[0] != '0') return 0;
  switch (text[1] | 0x20) {
    case 'x':
      return 16;
    case 'o':
      return 8;
    case 'b':
      return 2;
    default:
      return 0;
  }
}

// Digits with single underscores between them.
std::optional<Int> ParseDigits(std::string_view text, int base, bool negative) {
  constexpr Unsigned kMax = ~Unsigned{0} >> 1;
  Unsigned value = 0;
  bool digit_before = false;
  for (char c : text) {
    if (c == '_' && digit_before) {
      digit_before = false;
      continue;
    }
    const int digit = DigitValue(c);
    if (digit >= base) return std::nullopt;
    if (value > (kMax - static_cast<Unsigned>(digit)) / static_cast<Unsigned>(base)) {
      Fail("an integer is larger than 127 bits");
    }
    value = value * static_cast<Unsigned>(base) + static_cast<Unsigned>(digit);
    digit_before = true;
  }
  if (!digit_before) return std::nullopt;
  const Int magnitude = static_cast<Int>(value);
  return negative ? -magnitude : magnitude;
}

}  // namespace

std::optional<Int> ParseInteger(std::string_view raw, int base) {
  const std::string ascii = ToAsciiDigits(Strip(raw));
  std::string_view text = ascii;
  const bool negative = !text.empty() && text[0] == '-';
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) text.remove_prefix(1);
  const int prefix = PrefixBase(text);
  if (prefix != 0 && (base == 0 || base == prefix)) {
    text.remove_prefix(2);
    if (!text.empty() && text[0] == '_') text.remove_prefix(1);
    return ParseDigits(text, prefix, negative);
  }
  if (base == 0) {
    const bool zeros = text.find_first_not_of("0_") == std::string_view::npos;
    if (!text.empty() && text[0] == '0' && !zeros) return std::nullopt;
    base = 10;
  }
  return ParseDigits(text, base, negative);
}

std::optional<double> ParseFloat(std::string_view raw) {
  std::string text = ToAsciiDigits(Strip(raw));
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') continue;
    const auto is_digit = [&](size_t at) { return at < text.size() && DigitValue(text[at]) < 10; };
    if (i == 0 || !is_digit(i - 1) || !is_digit(i + 1)) return std::nullopt;
  }
  text.erase(std::remove(text.begin(), text.end(), '_'), text.end());
  std::string_view digits = text;
  if (!digits.empty() && (digits[0] == '+' || digits[0] == '-')) digits.remove_prefix(1);
  std::string lower(digits);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c; });
  const bool negative = text[0] == '-';
  if (lower == "inf" || lower == "infinity") return negative ? -HUGE_VAL : HUGE_VAL;
  if (lower == "nan") return std::nan("");
  if (lower.empty() || (DigitValue(lower[0]) >= 10 && lower[0] != '.')) return std::nullopt;
  if (lower.find_first_not_of("0123456789.e+-") != std::string::npos) return std::nullopt;
  const char* start = text.c_str();
  char* end = nullptr;
  const double value = std::strtod(start, &end);
  if (end != start + text.size()) return std::nullopt;
  return value;
}

Int TruncateFloat(double value) {
  if (std::isnan(value)) Fail("cannot convert float NaN to integer");
  if (std::isinf(value)) Fail("cannot convert float infinity to integer");
  if (std::fabs(value) >= 0x1p126) Fail("an integer is larger than 127 bits");
  return static_cast<Int>(value);
}

std::string FormatInteger(Int value, int base, bool upper) {
  const bool negative = value < 0;
  Unsigned magnitude = negative ? ~static_cast<Unsigned>(value) + 1 : static_cast<Unsigned>(value);
  const char* digits = upper ? "0123456789ABCDEF" : "0123456789abcdef";
  std::string out;
  do {
    out.push_back(digits[static_cast<int>(magnitude % static_cast<Unsigned>(base))]);
    magnitude /= static_cast<Unsigned>(base);
  } while (magnitude != 0);
  if (negative) out.push_back('-');
  std::reverse(out.begin(), out.end());
  return out;
}

std::string FormatInteger(Int value) { return FormatInteger(value, 10, false); }

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

double RoundFloat(double value, int64_t digits) {
  if (!std::isfinite(value) || digits > 323) return value;
  if (digits < -308) return std::copysign(0.0, value);
  if (digits < 0) {
    const double power = std::pow(10.0, static_cast<double>(-digits));
    return std::nearbyint(value / power) * power;
  }
  char buffer[800];
  std::snprintf(buffer, sizeof buffer, "%.*f", static_cast<int>(digits), value);
  return std::strtod(buffer, nullptr);
}

}  // namespace sluice::text::jinja
