// Comparing, membership and arithmetic.

#include <algorithm>
#include <limits>

#include "text/jinja/builtins.h"
#include "text/jinja/failure.h"
#include "text/jinja/numbers.h"
#include "text/jinja/operators.h"
#include "text/jinja/string_parts.h"

namespace sluice::text::jinja {
namespace {

// ---- Comparing

// Ints compare exactly, whatever their size.
bool EqualNumbers(const Value& a, const Value& b) {
  if (a.IsIntegral() && b.IsIntegral()) return a.integer() == b.integer();
  return a.AsDouble() == b.AsDouble();
}

bool LessNumbers(const Value& a, const Value& b) {
  if (a.IsIntegral() && b.IsIntegral()) return a.integer() < b.integer();
  return a.AsDouble() < b.AsDouble();
}

// What Python's containers take for equal without asking: the same object.
bool SameObject(const Value& a, const Value& b) {
  return a.object() != nullptr && a.object() == b.object();
}

bool EqualItems(Runtime& runtime, const Value& a, const Value& b) {
  if (a.items().size() != b.items().size()) return false;
  runtime.Step(a.items().size() / 16);
  for (size_t i = 0; i < a.items().size(); ++i) {
    const Value& x = a.items()[i];
    const Value& y = b.items()[i];
    if (!SameObject(x, y) && !Equal(runtime, x, y)) return false;
  }
  return true;
}

bool EqualDicts(Runtime& runtime, const DictObject& a, const DictObject& b) {
  if (a.entries.size() != b.entries.size()) return false;
  runtime.Step(a.entries.size());
  for (const auto& [key, value] : a.entries) {
    const Value* other = b.Find(runtime, key);
    if (other == nullptr) return false;
    if (!SameObject(value, *other) && !Equal(runtime, value, *other)) return false;
  }
  return true;
}

[[noreturn]] void NoOrder(std::string_view symbol, const Value& a, const Value& b) {
  if (a.IsUndefined()) Fail(a.undefined_message());
  if (b.IsUndefined()) Fail(b.undefined_message());
  Fail("'", symbol, "' is not supported between '", TypeName(a), "' and '", TypeName(b), "'");
}

bool ContainsItem(Runtime& runtime, const std::vector<Value>& items, const Value& item) {
  for (const Value& candidate : items) {
    runtime.Step();
    if (SameObject(candidate, item) || Equal(runtime, candidate, item)) return true;
  }
  return false;
}

// ---- Arithmetic

constexpr std::string_view kSymbols[] = {"+", "-", "*", "/", "//", "%"};

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
    case BinaryOp::kDivide:
      if (b == 0.0) Fail("division by zero");
      return Value::Float(a / b);
    default:
      Fail(NotSupported("operator for floats", kSymbols[static_cast<int>(op)], "+ - * /"));
  }
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

bool Compare(Runtime& runtime, CompareOp op, const Value& a, const Value& b) {
  switch (op) {
    case CompareOp::kEqual:
      return Equal(runtime, a, b);
    case CompareOp::kNotEqual:
      return !Equal(runtime, a, b);
    case CompareOp::kLess:
      return Less(runtime, a, b);
    case CompareOp::kLessEqual:
      return LessOrEqual(runtime, a, b);
    case CompareOp::kGreater:
      return Less(runtime, b, a, ">");
    case CompareOp::kGreaterEqual:
      return LessOrEqual(runtime, b, a, ">=");
    case CompareOp::kIn:
      return Contains(runtime, b, a);
    case CompareOp::kNotIn:
      return !Contains(runtime, b, a);
  }
  return false;
}

bool Equal(Runtime& runtime, const Value& a, const Value& b) {
  runtime.Step();
  if (a.IsNumber() && b.IsNumber()) return EqualNumbers(a, b);
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::kUndefined:
      return true;
    case Kind::kString:
      if (a.text().size() == b.text().size()) runtime.Work(a.text().size());
      return a.text() == b.text();
    case Kind::kList:
    case Kind::kTuple:
      return EqualItems(runtime, a, b);
    case Kind::kDict:
      return EqualDicts(runtime, a.dict(), b.dict());
    case Kind::kRange:
    case Kind::kView:
      Fail("comparing two ", TypeName(a), " is not supported; chat templates may use |list");
    default:
      return a.object() == b.object();
  }
}

bool Less(Runtime& runtime, const Value& a, const Value& b, std::string_view symbol) {
  runtime.Step();
  if (a.IsNumber() && b.IsNumber()) return LessNumbers(a, b);
  if (a.IsString() && b.IsString()) {
    runtime.Work(std::min(a.text().size(), b.text().size()));
    return a.text() < b.text();
  }
  if (!a.IsSequence() || a.kind() != b.kind()) NoOrder(symbol, a, b);
  const size_t common = std::min(a.items().size(), b.items().size());
  runtime.Step(common / 16);
  for (size_t i = 0; i < common; ++i) {
    const Value& x = a.items()[i];
    const Value& y = b.items()[i];
    if (!SameObject(x, y) && !Equal(runtime, x, y)) return Less(runtime, x, y, symbol);
  }
  return a.items().size() < b.items().size();
}

bool LessOrEqual(Runtime& runtime, const Value& a, const Value& b, std::string_view symbol) {
  if (a.IsNumber() && b.IsNumber()) return LessNumbers(a, b) || EqualNumbers(a, b);
  if (Less(runtime, a, b, symbol)) return true;
  return Equal(runtime, a, b);
}

bool Contains(Runtime& runtime, const Value& container, const Value& item) {
  switch (container.kind()) {
    case Kind::kString:
      if (!item.IsString()) {
        Fail("'in <string>' requires string as left operand, not ", TypeName(item));
      }
      runtime.Work(container.text().size() * kSearchWork);
      return FindIn(container.text(), item.text()) != std::string::npos;
    case Kind::kList:
    case Kind::kTuple:
      return ContainsItem(runtime, container.items(), item);
    case Kind::kDict:
      return container.dict().Find(runtime, item) != nullptr;
    default: {
      std::shared_ptr<Iterator> iterator = Iterate(runtime, container);
      Value candidate;
      while (iterator->Next(runtime, &candidate)) {
        if (Equal(runtime, candidate, item)) return true;
      }
      return false;
    }
  }
}

bool IsHashable(Runtime& runtime, const Value& value) {
  runtime.Step();
  switch (value.kind()) {
    case Kind::kList:
    case Kind::kDict:
      return false;
    case Kind::kView:
      return value.As<ViewObject>().what == ViewKind::kValues;
    case Kind::kTuple:
      return std::all_of(value.items().begin(), value.items().end(),
                         [&runtime](const Value& item) { return IsHashable(runtime, item); });
    default:
      return true;
  }
}

void CheckHashable(Runtime& runtime, const Value& value) {
  if (!IsHashable(runtime, value)) Fail("unhashable type: '", TypeName(value), "'");
}

// ---- Arithmetic

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
  if (a.IsString() && op == BinaryOp::kModulo) {
    Fail("a string is formatted by %, which is not supported; chat templates may use ~ or format");
  }
  if (a.IsUndefined() || b.IsUndefined()) Unsupported(op, a, b);
  switch (op) {
    case BinaryOp::kAdd:
      if (a.IsString() && b.IsString()) return Concatenate(runtime, a, b);
      if (a.IsSequence() && a.kind() == b.kind()) return Join(runtime, a, b);
      break;
    case BinaryOp::kMultiply:
      if ((a.IsString() || a.IsSequence()) && b.IsIntegral()) return Repeat(runtime, a, b);
      if ((b.IsString() || b.IsSequence()) && a.IsIntegral()) return Repeat(runtime, b, a);
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

}  // namespace sluice::text::jinja
