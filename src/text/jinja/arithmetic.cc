#include <cmath>
#include <limits>

#include "text/jinja/failure.h"
#include "text/jinja/numbers.h"
#include "text/jinja/operators.h"
#include "text/jinja/string_format.h"

namespace sluice::text::jinja {
namespace {

constexpr std::string_view kSymbols[] = {"+", "-", "*", "/", "//", "%", "** or pow()"};

[[noreturn]] void Unsupported(BinaryOp op, const Value& a, const Value& b) {
  if (a.IsUndefined()) Fail(a.undefined_message());
  if (b.IsUndefined()) Fail(b.undefined_message());
  if (op == BinaryOp::kAdd && (a.IsString() || a.IsSequence())) {
    Fail("can only concatenate ", TypeName(a), " (not \"", TypeName(b), "\") to ", TypeName(a));
  }
  Fail("unsupported operand types for ", kSymbols[static_cast<int>(op)], ": '", TypeName(a),
       "' and '", TypeName(b), "'");
}

[[noreturn]] void Overflow() { Fail("an integer is larger than 127 bits"); }

Int FloorDivide(Int a, Int b) {
  if (b == -1) {
    Int out;
    if (__builtin_sub_overflow(Int{0}, a, &out)) Overflow();
    return out;
  }
  const Int quotient = a / b;
  return (a % b != 0 && ((a < 0) != (b < 0))) ? quotient - 1 : quotient;
}

Int Modulo(Int a, Int b) {
  if (b == -1) return 0;
  const Int rest = a % b;
  return (rest != 0 && ((rest < 0) != (b < 0))) ? rest + b : rest;
}

Int Power(Int base, Int exponent) {
  Int out = 1;
  while (exponent > 0) {
    if (exponent & 1) {
      if (__builtin_mul_overflow(out, base, &out)) Overflow();
    }
    exponent >>= 1;
    // |base| > 1 overflows long before the exponent runs out; 0, 1 and -1 never do.
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) Overflow();
  }
  return out;
}

double FloatModulo(double a, double b) {
  double rest = std::fmod(a, b);
  if (rest != 0.0) {
    if ((b < 0) != (rest < 0)) rest += b;
    return rest;
  }
  return std::copysign(0.0, b);
}

double FloatFloorDivide(double a, double b) {
  const double rest = std::fmod(a, b);
  double quotient = (a - rest) / b;
  if (rest != 0.0 && ((b < 0) != (rest < 0))) quotient -= 1.0;
  if (quotient == 0.0) return std::copysign(0.0, a / b);
  const double floored = std::floor(quotient);
  return quotient - floored > 0.5 ? floored + 1.0 : floored;
}

double FloatPower(double a, double b) {
  if (a == 0.0 && b < 0.0) Fail("0.0 cannot be raised to a negative power");
  if (a < 0.0 && std::isfinite(a) && std::isfinite(b) && b != std::floor(b)) {
    Fail("a negative number to a fractional power is complex");
  }
  const double out = std::pow(a, b);
  if (std::isinf(out) && std::isfinite(a) && std::isfinite(b)) Fail("the power is too large");
  return out;
}

Value IntegerBinary(BinaryOp op, Int a, Int b) {
  Int out = 0;
  const bool divides =
      op == BinaryOp::kDivide || op == BinaryOp::kFloorDivide || op == BinaryOp::kModulo;
  if (divides && b == 0) Fail("division by zero");
  switch (op) {
    case BinaryOp::kAdd:
      if (__builtin_add_overflow(a, b, &out)) Overflow();
      break;
    case BinaryOp::kSubtract:
      if (__builtin_sub_overflow(a, b, &out)) Overflow();
      break;
    case BinaryOp::kMultiply:
      if (__builtin_mul_overflow(a, b, &out)) Overflow();
      break;
    case BinaryOp::kDivide:
      return Value::Float(static_cast<double>(a) / static_cast<double>(b));
    case BinaryOp::kFloorDivide:
      out = FloorDivide(a, b);
      break;
    case BinaryOp::kModulo:
      out = Modulo(a, b);
      break;
    case BinaryOp::kPower:
      if (b < 0) {
        return Value::Float(FloatPower(static_cast<double>(a), static_cast<double>(b)));
      }
      out = Power(a, b);
      break;
  }
  return Value::Integer(out);
}

Value FloatBinary(BinaryOp op, double a, double b) {
  switch (op) {
    case BinaryOp::kAdd:
      return Value::Float(a + b);
    case BinaryOp::kSubtract:
      return Value::Float(a - b);
    case BinaryOp::kMultiply:
      return Value::Float(a * b);
    case BinaryOp::kPower:
      return Value::Float(FloatPower(a, b));
    default:
      break;
  }
  if (b == 0.0) Fail("division by zero");
  if (op == BinaryOp::kDivide) return Value::Float(a / b);
  return Value::Float(op == BinaryOp::kFloorDivide ? FloatFloorDivide(a, b) : FloatModulo(a, b));
}

Value Repeat(Runtime& runtime, const Value& what, const Value& times) {
  const int64_t wanted = Index(times);
  if (times.integer() != wanted)
    Fail("cannot repeat a value ", FormatInteger(times.integer()), " times");
  const size_t count = wanted > 0 ? static_cast<size_t>(wanted) : 0;
  if (what.IsString()) {
    TextBuilder out(runtime);
    out.AppendRepeated(what.text(), count);
    return out.Finish(what.markup());
  }
  const std::vector<Value>& items = what.items();
  std::vector<Value> out;
  if (!items.empty() && count > 0) {
    runtime.CheckCount(count);
    runtime.CheckCount(count * items.size());
    runtime.Step(count * items.size());
    out.reserve(count * items.size());
    for (size_t i = 0; i < count; ++i) out.insert(out.end(), items.begin(), items.end());
  }
  return what.Is(Kind::kList) ? runtime.List(std::move(out)) : runtime.Tuple(std::move(out));
}

Value Join(Runtime& runtime, const Value& a, const Value& b) {
  std::vector<Value> out;
  runtime.CheckCount(a.items().size() + b.items().size());
  out.reserve(a.items().size() + b.items().size());
  out.insert(out.end(), a.items().begin(), a.items().end());
  out.insert(out.end(), b.items().begin(), b.items().end());
  return a.Is(Kind::kList) ? runtime.List(std::move(out)) : runtime.Tuple(std::move(out));
}

// A safe string escapes the other one.
Value Concatenate(Runtime& runtime, const Value& a, const Value& b) {
  const bool markup = a.markup() || b.markup();
  const Value left = markup ? Escape(runtime, a) : a;
  const Value right = markup ? Escape(runtime, b) : b;
  TextBuilder out(runtime);
  out.Append(left.text());
  out.Append(right.text());
  return out.Finish(markup);
}

}  // namespace

int64_t Index(const Value& value) {
  if (!value.IsIntegral()) {
    Fail("'", TypeName(value), "' object cannot be interpreted as an integer");
  }
  constexpr Int kMax = std::numeric_limits<int64_t>::max();
  constexpr Int kMin = std::numeric_limits<int64_t>::min();
  const Int wanted = value.integer();
  return static_cast<int64_t>(wanted > kMax ? kMax : wanted < kMin ? kMin : wanted);
}

Value Binary(Runtime& runtime, BinaryOp op, const Value& a, const Value& b) {
  if (a.IsIntegral() && b.IsIntegral()) return IntegerBinary(op, a.integer(), b.integer());
  if (a.IsNumber() && b.IsNumber()) return FloatBinary(op, a.AsDouble(), b.AsDouble());
  if (a.IsUndefined() || (b.IsUndefined() && !(op == BinaryOp::kModulo && a.IsString()))) {
    Unsupported(op, a, b);
  }
  switch (op) {
    case BinaryOp::kAdd:
      if (a.IsString() && b.IsString()) return Concatenate(runtime, a, b);
      if (a.IsSequence() && a.kind() == b.kind()) return Join(runtime, a, b);
      break;
    case BinaryOp::kMultiply:
      if ((a.IsString() || a.IsSequence()) && b.IsIntegral()) return Repeat(runtime, a, b);
      if ((b.IsString() || b.IsSequence()) && a.IsIntegral()) return Repeat(runtime, b, a);
      break;
    case BinaryOp::kModulo:
      if (a.IsString()) return PercentFormat(runtime, a, b);
      break;
    default:
      break;
  }
  Unsupported(op, a, b);
}

Value Negate(const Value& value) {
  if (value.Is(Kind::kFloat)) return Value::Float(-value.real());
  if (value.IsIntegral()) {
    Int out;
    if (__builtin_sub_overflow(Int{0}, value.integer(), &out)) Overflow();
    return Value::Integer(out);
  }
  if (value.IsUndefined()) Fail(value.undefined_message());
  Fail("bad operand type for unary -: '", TypeName(value), "'");
}

Value Plus(const Value& value) {
  if (value.Is(Kind::kFloat)) return value;
  if (value.IsIntegral()) return Value::Integer(value.integer());
  if (value.IsUndefined()) Fail(value.undefined_message());
  Fail("bad operand type for unary +: '", TypeName(value), "'");
}

}  // namespace sluice::text::jinja
