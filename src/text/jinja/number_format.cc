#include "text/jinja/number_format.h"

#include <cmath>
#include <cstdio>
#include <vector>

#include "text/jinja/failure.h"
#include "text/jinja/numbers.h"
#include "text/jinja/unicode.h"

namespace sluice::text::jinja {
namespace {

// More digits than this say nothing about a double.
constexpr int64_t kPrecisionMax = 4000;

std::string_view SignText(char sign, bool negative) {
  if (negative) return "-";
  return sign == '+' ? "+" : sign == ' ' ? " " : "";
}

// Puts the separator between groups of `size` of the leading digits; with zero padding the zeros
// are grouped too, up to `width` characters.
std::string Group(std::string_view digits, char separator, int size, int64_t width) {
  size_t end = 0;
  while (end < digits.size() && std::isxdigit(static_cast<unsigned char>(digits[end]))) ++end;
  std::string_view whole = digits.substr(0, end);
  const std::string_view rest = digits.substr(end);
  const int64_t room = width - static_cast<int64_t>(rest.size());
  std::string reversed;
  int in_group = 0;
  for (size_t i = whole.size(); i > 0 || static_cast<int64_t>(reversed.size()) < room;) {
    if (in_group == size) {
      reversed.push_back(separator);
      in_group = 0;
      if (i == 0 && static_cast<int64_t>(reversed.size()) >= room) {
        reversed.push_back('0');
        break;
      }
    }
    reversed.push_back(i > 0 ? whole[--i] : '0');
    ++in_group;
  }
  return std::string(reversed.rbegin(), reversed.rend()) + std::string(rest);
}

std::string Printf(char type, bool alternate, int precision, double value) {
  const char format[] = {'%', '#', '.', '*', type, '\0'};
  const char plain[] = {'%', '.', '*', type, '\0'};
  const char* chosen = alternate ? format : plain;
  const int size = std::snprintf(nullptr, 0, chosen, precision, value);
  std::vector<char> buffer(static_cast<size_t>(size) + 1);
  std::snprintf(buffer.data(), buffer.size(), chosen, precision, value);
  return {buffer.data(), static_cast<size_t>(size)};
}

// Type 0: like 'g', but with a digit behind the point, and repr's digits without a precision.
std::string PlainFloat(const FormatSpec& spec, double magnitude) {
  if (spec.precision < 0) return FormatFloat(magnitude);
  const int precision = spec.precision == 0 ? 1 : static_cast<int>(spec.precision);
  const int exponent =
      magnitude == 0.0
          ? 0
          : std::atoi(Printf('e', false, precision - 1, magnitude)
                          .substr(static_cast<size_t>(precision > 1 ? precision + 2 : 2))
                          .c_str());
  // One digit less than 'g' stays fixed: the point needs a digit behind it.
  if (exponent >= -4 && exponent < precision - (precision > 1 ? 1 : 0)) {
    std::string text = Printf('g', false, precision, magnitude);
    if (text.find_first_of(".e") == std::string::npos) text += ".0";
    return text;
  }
  std::string text = Printf('e', false, precision - 1, magnitude);
  const size_t e = text.find('e');
  std::string digits = text.substr(0, e);
  if (digits.find('.') != std::string::npos) {
    while (digits.back() == '0') digits.pop_back();
    if (digits.back() == '.') digits.pop_back();
  }
  return digits + text.substr(e);
}

}  // namespace

std::string Pad(Runtime& runtime, const FormatSpec& spec, std::string_view head,
                std::string_view body, char default_align) {
  const int64_t used = static_cast<int64_t>(head.size() + CountUtf8(body));
  const size_t padding = spec.width > used ? static_cast<size_t>(spec.width - used) : 0;
  char align = spec.align != '\0' ? spec.align : default_align;
  std::string_view fill = spec.fill;
  if (spec.zero && spec.align == '\0') {
    align = default_align == '>' ? '=' : default_align;
    fill = "0";
  }
  TextBuilder out(runtime);
  const size_t before = align == '>' ? padding : align == '^' ? padding / 2 : 0;
  out.AppendRepeated(fill, before);
  out.Append(head);
  if (align == '=') out.AppendRepeated(fill, padding);
  out.Append(body);
  if (align == '<' || align == '^') out.AppendRepeated(fill, padding - before);
  return out.Take();
}

std::string FormatIntegerSpec(Runtime& runtime, const FormatSpec& spec, Int value) {
  int base = 10;
  std::string_view prefix;
  switch (spec.type) {
    case 'x':
    case 'X':
      base = 16;
      prefix = spec.type == 'x' ? "0x" : "0X";
      break;
    case 'o':
      base = 8;
      prefix = "0o";
      break;
    case 'b':
      base = 2;
      prefix = "0b";
      break;
    default:
      break;
  }
  std::string digits = FormatInteger(value, base, spec.type == 'X');
  if (value < 0) digits.erase(0, 1);
  std::string head(SignText(spec.sign, value < 0));
  if (spec.alternate) head += prefix;
  if (spec.grouping != '\0') {
    const bool zero = spec.zero && spec.align == '\0';
    runtime.CheckString(static_cast<size_t>(spec.width));
    digits = Group(digits, spec.grouping, base == 10 ? 3 : 4,
                   zero ? spec.width - static_cast<int64_t>(head.size()) : 0);
  }
  return Pad(runtime, spec, head, digits, '>');
}

std::string FormatFloatSpec(Runtime& runtime, const FormatSpec& spec, double value) {
  const bool negative = std::signbit(value) && !std::isnan(value);
  const double magnitude = std::fabs(value);
  if (spec.precision > kPrecisionMax) {
    Fail("the precision ", spec.precision, " of a float is over the limit of ", kPrecisionMax);
  }
  const int precision = spec.precision < 0 ? 6 : static_cast<int>(spec.precision);
  const bool upper = spec.type == 'E' || spec.type == 'F' || spec.type == 'G';
  std::string text;
  if (!std::isfinite(value)) {
    text = std::isnan(value) ? (upper ? "NAN" : "nan") : (upper ? "INF" : "inf");
    if (spec.type == '%') text += '%';
  } else if (spec.type == '%') {
    text = Printf('f', spec.alternate, precision, magnitude * 100.0) + "%";
  } else if (spec.type == '\0') {
    text = PlainFloat(spec, magnitude);
  } else {
    const char type = spec.type == 'n' ? 'g' : spec.type;
    text = Printf(type, spec.alternate, precision, magnitude);
  }
  const std::string_view head = SignText(spec.sign, negative);
  if (spec.grouping != '\0' && std::isfinite(value)) {
    const bool zero = spec.zero && spec.align == '\0';
    runtime.CheckString(static_cast<size_t>(spec.width));
    const size_t end = text.find_first_not_of("0123456789");
    const std::string rest = end == std::string::npos ? "" : text.substr(end);
    const int64_t room =
        spec.width - static_cast<int64_t>(head.size()) - static_cast<int64_t>(rest.size());
    text = Group(text.substr(0, end), spec.grouping, 3, zero ? room : 0) + rest;
  }
  return Pad(runtime, spec, head, text, '>');
}

}  // namespace sluice::text::jinja
