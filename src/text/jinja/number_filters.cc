// Filters whose subject or result is a number.

#include <cmath>
#include <cstdio>

#include "text/jinja/arguments.h"
#include "text/jinja/failure.h"
#include "text/jinja/filters.h"
#include "text/jinja/numbers.h"
#include "text/jinja/operators.h"

namespace sluice::text::jinja {
namespace {

Value Abs(Runtime&, const Value& subject, const Arguments& arguments) {
  Bound("abs", arguments, {}, 0);
  if (subject.Is(Kind::kFloat)) return Value::Float(std::fabs(subject.real()));
  if (!subject.IsIntegral()) {
    if (subject.IsUndefined()) Fail("bad operand type for abs(): 'Undefined'");
    Fail("bad operand type for abs(): '", TypeName(subject), "'");
  }
  return subject.integer() < 0 ? Negate(subject) : Plus(subject);
}

// float(value), or nothing where Python has a TypeError or ValueError.
std::optional<double> NumberOf(Runtime& runtime, const Value& subject) {
  if (subject.IsNumber()) return subject.AsDouble();
  if (!subject.IsString()) return std::nullopt;
  runtime.Work(subject.text().size() * 8);
  return ParseFloat(subject.text());
}

// int(float(value)), or nothing where Python has a TypeError, ValueError or OverflowError.
std::optional<Int> TruncatedNumber(Runtime& runtime, const Value& subject) {
  const std::optional<double> number = NumberOf(runtime, subject);
  if (!number || !std::isfinite(*number)) return std::nullopt;
  return TruncateFloat(*number);
}

Value IntFilter(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  const Bound bound("int", arguments, {"default", "base"}, 0);
  if (subject.IsUndefined()) Fail(subject.undefined_message());
  if (subject.IsIntegral()) return Value::Integer(subject.integer());
  if (subject.Is(Kind::kFloat)) {
    if (std::isinf(subject.real())) Fail("cannot convert float infinity to integer");
    if (std::isnan(subject.real())) return bound.Or(0, Value::Integer(0));
    return Value::Integer(TruncateFloat(subject.real()));
  }
  if (subject.IsString()) {
    const int64_t base = bound.Integer(1, 10);
    runtime.Work(subject.text().size() * 8);
    if (base == 0 || (base >= 2 && base <= 36)) {
      if (const auto value = ParseInteger(subject.text(), static_cast<int>(base))) {
        return Value::Integer(*value);
      }
    }
  }
  if (const std::optional<Int> value = TruncatedNumber(runtime, subject)) {
    return Value::Integer(*value);
  }
  return bound.Or(0, Value::Integer(0));
}

Value FloatFilter(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  const Bound bound("float", arguments, {"default"}, 0);
  if (subject.IsUndefined()) Fail(subject.undefined_message());
  if (const auto value = NumberOf(runtime, subject)) return Value::Float(*value);
  return bound.Or(0, Value::Float(0.0));
}

// round(integer, digits): to a power of ten, half to even.
Int RoundInteger(Int value, int64_t digits) {
  if (digits >= 0) return value;
  constexpr int64_t kDigitsMax = 38;
  if (digits < -kDigitsMax) return 0;
  Int power = 1;
  for (int64_t i = 0; i < -digits; ++i) power *= 10;
  Int rest = value % power;
  if (rest < 0) rest += power;
  const Int down = value - rest;
  const bool odd = down / power % 2 != 0;
  return rest * 2 > power || (rest * 2 == power && odd) ? down + power : down;
}

Value Round(Runtime&, const Value& subject, const Arguments& arguments) {
  const Bound bound("round", arguments, {"precision", "method"}, 0);
  const std::string method = bound.Has(1) && bound[1].IsString() ? bound.Text(1) : "common";
  if ((bound.Has(1) && !bound[1].IsString()) ||
      (method != "common" && method != "ceil" && method != "floor")) {
    Fail("round's method must be common, ceil or floor");
  }
  if (method == "common") {
    if (!subject.IsNumber()) {
      Fail("type ", TypeName(subject), " doesn't define __round__ method");
    }
    if (bound.Has(0) && bound[0].IsNone()) {
      if (subject.IsIntegral()) return Value::Integer(subject.integer());
      return Value::Integer(TruncateFloat(std::nearbyint(subject.real())));
    }
    const int64_t digits = bound.Integer(0, 0);
    if (subject.IsIntegral()) return Value::Integer(RoundInteger(subject.integer(), digits));
    return Value::Float(RoundFloat(subject.real(), digits));
  }
  if (subject.IsUndefined()) Fail(subject.undefined_message());
  if (!subject.IsNumber()) Fail("round needs a number, not ", TypeName(subject));
  const double power = std::pow(10.0, static_cast<double>(bound.Integer(0, 0)));
  const double scaled = subject.AsDouble() * power;
  if (!std::isfinite(scaled)) Fail("cannot convert float infinity or NaN to integer");
  if (power == 0.0) Fail("division by zero");
  return Value::Float((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / power);
}

Value FileSize(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  const Bound bound("filesizeformat", arguments, {"binary"}, 0);
  const bool binary = bound.Flag(0, false);
  const std::optional<double> bytes = NumberOf(runtime, subject);
  if (subject.IsUndefined()) Fail(subject.undefined_message());
  if (!bytes) Fail("filesizeformat needs a number, not ", TypeName(subject));
  const double base = binary ? 1024.0 : 1000.0;
  if (*bytes == 1.0) return runtime.String("1 Byte");
  if (*bytes < base) {
    return runtime.String(StrCat(FormatInteger(TruncateFloat(*bytes)), " Bytes"));
  }
  static constexpr std::string_view kPrefixes = "KMGTPEZY";
  double unit = base;
  for (size_t i = 0;; ++i) {
    unit *= base;
    if (*bytes < unit || i + 1 == kPrefixes.size()) {
      char text[400];
      std::snprintf(text, sizeof text, "%.1f %c%s", base * *bytes / unit,
                    i == 0 && !binary ? 'k' : kPrefixes[i], binary ? "iB" : "B");
      return runtime.String(text);
    }
  }
}

constexpr FilterEntry kFilters[] = {
    {"abs", Abs},     {"filesizeformat", FileSize}, {"float", FloatFilter}, {"int", IntFilter},
    {"round", Round},
};

}  // namespace

std::span<const FilterEntry> NumberFilters() { return kFilters; }

}  // namespace sluice::text::jinja
