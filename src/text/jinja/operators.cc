// Comparing, membership and arithmetic.

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "text/jinja/builtins.h"
#include "text/jinja/failure.h"
#include "text/jinja/operators.h"

namespace sluice::text::jinja {
namespace {

// ---- Comparing

template <class T>
bool HoldsFor(Op op, const T& a, const T& b) {
  switch (op) {
    case Op::kLess:
      return a < b;
    case Op::kLessEqual:
      return a <= b;
    case Op::kGreater:
      return a > b;
    case Op::kGreaterEqual:
      return a >= b;
    default:
      return a == b;
  }
}

// Ints compare exactly, whatever their size.
bool CompareNumbers(Op op, const Value& a, const Value& b) {
  if (a.IsIntegral() && b.IsIntegral()) return HoldsFor(op, a.integer(), b.integer());
  return HoldsFor(op, a.AsDouble(), b.AsDouble());
}

// What Python's containers take for equal without asking: the same object.
bool SameObject(const Value& a, const Value& b) {
  return a.object() != nullptr && a.object() == b.object();
}

bool EqualAsItems(Runtime& runtime, const Value& a, const Value& b) {
  return SameObject(a, b) || Equal(runtime, a, b);
}

// The first place at which two sequences differ, or the length of the shorter one.
size_t FirstDifference(Runtime& runtime, const Value& a, const Value& b) {
  const size_t common = std::min(a.items().size(), b.items().size());
  runtime.Step(common / 16);
  size_t place = 0;
  while (place < common && EqualAsItems(runtime, a.items()[place], b.items()[place])) ++place;
  return place;
}

bool EqualDicts(Runtime& runtime, const DictObject& a, const DictObject& b) {
  if (a.entries.size() != b.entries.size()) return false;
  runtime.Step(a.entries.size());
  for (const auto& [key, value] : a.entries) {
    const Value* other = b.Find(runtime, key);
    if (other == nullptr || !EqualAsItems(runtime, value, *other)) return false;
  }
  return true;
}

bool ContainsItem(Runtime& runtime, const std::vector<Value>& items, const Value& item) {
  for (const Value& candidate : items) {
    runtime.Step();
    if (EqualAsItems(runtime, candidate, item)) return true;
  }
  return false;
}

// ---- Arithmetic

[[noreturn]] void Unsupported(Op op, const Value& a, const Value& b) {
  CheckDefined(a);
  CheckDefined(b);
  if (op == Op::kAdd && (a.IsString() || a.IsSequence())) {
    Fail("can only concatenate ", TypeName(a), " (not \"", TypeName(b), "\") to ", TypeName(a));
  }
  Fail("unsupported operand types for ", SymbolOf(op), ": '", TypeName(a), "' and '", TypeName(b),
       "'");
}

// Takes a reference, since `value` is written while `overflows` is worked out.
Value Checked(bool overflows, const Int& value) {
  if (overflows) Fail("an integer is larger than 127 bits");
  return Value::Integer(value);
}

Value IntegerBinary(Op op, Int a, Int b) {
  Int out = 0;
  if (b == 0 && (op == Op::kDivide || op == Op::kFloorDivide || op == Op::kModulo)) {
    Fail("division by zero");
  }
  switch (op) {
    case Op::kAdd:
      return Checked(__builtin_add_overflow(a, b, &out), out);
    case Op::kSubtract:
      return Checked(__builtin_sub_overflow(a, b, &out), out);
    case Op::kMultiply:
      return Checked(__builtin_mul_overflow(a, b, &out), out);
    case Op::kDivide:
      return Value::Float(static_cast<double>(a) / static_cast<double>(b));
    default:
      break;
  }
  // Division by -1 can overflow. Python rounds a quotient down, C++ towards zero.
  if (b == -1) return op == Op::kModulo ? Value::Integer(0) : IntegerBinary(Op::kSubtract, 0, a);
  const bool is_rounded_up = a % b != 0 && (a < 0) != (b < 0);
  if (op == Op::kModulo) return Value::Integer(a % b + (is_rounded_up ? b : 0));
  return Value::Integer(a / b - (is_rounded_up ? 1 : 0));
}

Value FloatBinary(Op op, double a, double b) {
  switch (op) {
    case Op::kAdd:
      return Value::Float(a + b);
    case Op::kSubtract:
      return Value::Float(a - b);
    case Op::kMultiply:
      return Value::Float(a * b);
    case Op::kDivide:
      if (b == 0.0) Fail("division by zero");
      return Value::Float(a / b);
    default:
      Fail(NotSupported("operator for floats", SymbolOf(op), "+ - * /"));
  }
}

Value Repeat(Runtime& runtime, const Value& what, const Value& times) {
  const int64_t wanted = Index(times);
  if (times.integer() != wanted) {
    Fail("cannot repeat a value ", fmt::to_string(times.integer()), " times");
  }
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
  return runtime.Sequence(what.kind(), std::move(out));
}

Value Join(Runtime& runtime, const Value& a, const Value& b) {
  std::vector<Value> out;
  runtime.CheckCount(a.items().size() + b.items().size());
  out.reserve(a.items().size() + b.items().size());
  for (const Value* part : {&a, &b}) {
    out.insert(out.end(), part->items().begin(), part->items().end());
  }
  return runtime.Sequence(a.kind(), std::move(out));
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

std::string_view SymbolOf(Op op) {
  // By Op.
  static constexpr std::string_view kSymbols[] = {
      "or",     "and", "==", "!=", "<", "<=", ">",  ">=", "in",
      "not in", "+",   "-",  "~",  "*", "/",  "//", "%"};
  return kSymbols[static_cast<int>(op)];
}

void CheckDefined(const Value& value) {
  if (value.IsUndefined()) Fail(value.undefined_message());
}

bool Compare(Runtime& runtime, Op op, const Value& a, const Value& b) {
  if (op == Op::kEqual || op == Op::kNotEqual) return Equal(runtime, a, b) == (op == Op::kEqual);
  if (op == Op::kIn || op == Op::kNotIn) return Contains(runtime, b, a) == (op == Op::kIn);
  return Ordered(runtime, op, a, b);
}

bool Equal(Runtime& runtime, const Value& a, const Value& b) {
  runtime.Step();
  if (a.IsNumber() && b.IsNumber()) return CompareNumbers(Op::kEqual, a, b);
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::kUndefined:
      return true;
    case Kind::kString:
      if (a.text().size() == b.text().size()) runtime.Work(a.text().size());
      return a.text() == b.text();
    case Kind::kList:
    case Kind::kTuple:
      return a.items().size() == b.items().size() &&
             FirstDifference(runtime, a, b) == a.items().size();
    case Kind::kDict:
      return EqualDicts(runtime, a.dict(), b.dict());
    case Kind::kRange:
    case Kind::kView:
      Fail("comparing two ", TypeName(a), " is not supported; chat templates may use |list");
    default:
      return a.object() == b.object();
  }
}

bool Ordered(Runtime& runtime, Op op, const Value& a, const Value& b) {
  runtime.Step();
  if (a.IsNumber() && b.IsNumber()) return CompareNumbers(op, a, b);
  if (a.IsString() && b.IsString()) {
    runtime.Work(std::min(a.text().size(), b.text().size()));
    return HoldsFor(op, a.text().compare(b.text()), 0);
  }
  if (!a.IsSequence() || a.kind() != b.kind()) {
    CheckDefined(a);
    CheckDefined(b);
    Fail("'", SymbolOf(op), "' is not supported between '", TypeName(a), "' and '", TypeName(b),
         "'");
  }
  const size_t place = FirstDifference(runtime, a, b);
  if (place < a.items().size() && place < b.items().size()) {
    return Ordered(runtime, op, a.items()[place], b.items()[place]);
  }
  return HoldsFor(op, a.items().size(), b.items().size());
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
      // A generator is read up to the item.
      const std::shared_ptr<IteratorObject> iterator = Iterate(runtime, container);
      while (const std::optional<Value> candidate = iterator->Next()) {
        if (Equal(runtime, *candidate, item)) return true;
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

Value Binary(Runtime& runtime, Op op, const Value& a, const Value& b) {
  if (a.IsIntegral() && b.IsIntegral()) return IntegerBinary(op, a.integer(), b.integer());
  if (a.IsNumber() && b.IsNumber()) return FloatBinary(op, a.AsDouble(), b.AsDouble());
  if (a.IsString() && op == Op::kModulo) {
    Fail("a string is formatted by %, which is not supported; chat templates may use ~ or format");
  }
  if (op == Op::kAdd) {
    if (a.IsString() && b.IsString()) return Concatenate(runtime, a, b);
    if (a.IsSequence() && a.kind() == b.kind()) return Join(runtime, a, b);
  }
  if (op == Op::kMultiply) {
    if ((a.IsString() || a.IsSequence()) && b.IsIntegral()) return Repeat(runtime, a, b);
    if ((b.IsString() || b.IsSequence()) && a.IsIntegral()) return Repeat(runtime, b, a);
  }
  Unsupported(op, a, b);
}

Value Negate(const Value& value) {
  if (value.Is(Kind::kFloat)) return Value::Float(-value.real());
  if (value.IsIntegral()) return IntegerBinary(Op::kSubtract, 0, value.integer());
  CheckDefined(value);
  Fail("bad operand type for unary -: '", TypeName(value), "'");
}

}  // namespace sluice::text::jinja
