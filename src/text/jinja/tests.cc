#include "text/jinja/tests.h"

#include <algorithm>
#include <iterator>

#include "text/jinja/arguments.h"
#include "text/jinja/failure.h"
#include "text/jinja/filters.h"
#include "text/jinja/operators.h"
#include "text/jinja/string_parts.h"

namespace sluice::text::jinja {
namespace {

template <Kind... kinds>
bool HasKind(Runtime&, const Value& subject, const Arguments& arguments) {
  Bound("test", arguments, {}, 0);
  return (subject.Is(kinds) || ...);
}

bool Defined(Runtime&, const Value& subject, const Arguments& arguments) {
  Bound("defined", arguments, {}, 0);
  return !subject.IsUndefined();
}

template <bool wanted>
bool IsBool(Runtime&, const Value& subject, const Arguments& arguments) {
  Bound("boolean test", arguments, {}, 0);
  return subject.Is(Kind::kBool) && subject.boolean() == wanted;
}

bool Sequence(Runtime&, const Value& subject, const Arguments& arguments) {
  Bound("sequence", arguments, {}, 0);
  return Length(subject).has_value() && !subject.Is(Kind::kView);
}

bool Iterable(Runtime&, const Value& subject, const Arguments& arguments) {
  Bound("iterable", arguments, {}, 0);
  return IsIterable(subject);
}

// Undefined has __call__, and so has loop.
bool Callable(Runtime&, const Value& subject, const Arguments& arguments) {
  Bound("callable", arguments, {}, 0);
  switch (subject.kind()) {
    case Kind::kMacro:
    case Kind::kFunction:
    case Kind::kJoiner:
    case Kind::kLoop:
    case Kind::kUndefined:
      return true;
    default:
      return false;
  }
}

bool DividesTo(Runtime& runtime, const Value& subject, const Value& by, Int rest) {
  return Equal(runtime, Binary(runtime, BinaryOp::kModulo, subject, by), Value::Integer(rest));
}

bool Odd(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  Bound("odd", arguments, {}, 0);
  return DividesTo(runtime, subject, Value::Integer(2), 1);
}

bool Even(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  Bound("even", arguments, {}, 0);
  return DividesTo(runtime, subject, Value::Integer(2), 0);
}

bool DivisibleBy(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  const Bound bound("divisibleby", arguments, {"num"}, 1);
  return DividesTo(runtime, subject, bound[0], 0);
}

template <bool upper>
bool Cased(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  Bound("case test", arguments, {}, 0);
  const std::string text = ToString(runtime, subject);
  runtime.Work(text.size() * 8);
  return HasCase(text, upper);
}

bool IsFilter(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  Bound("filter", arguments, {}, 0);
  CheckHashable(runtime, subject);
  return subject.IsString() && FindFilter(subject.text()) != nullptr;
}

bool IsTest(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  Bound("test", arguments, {}, 0);
  CheckHashable(runtime, subject);
  return subject.IsString() && FindTest(subject.text()) != nullptr;
}

bool Escaped(Runtime&, const Value& subject, const Arguments& arguments) {
  Bound("escaped", arguments, {}, 0);
  return subject.markup();
}

bool SameAs(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  const Bound bound("sameas", arguments, {"other"}, 1);
  return Identical(runtime, subject, bound[0]);
}

bool In(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  const Bound bound("in", arguments, {"seq"}, 1);
  return Contains(runtime, bound[0], subject);
}

template <bool wanted>
bool IsEqual(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  const Bound bound("comparison", arguments, {"other"}, 1, kPositionalOnly);
  return Equal(runtime, subject, bound[0]) == wanted;
}

bool LessThan(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  const Bound bound("lt", arguments, {"other"}, 1, kPositionalOnly);
  return Less(runtime, subject, bound[0]);
}

bool GreaterThan(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  const Bound bound("gt", arguments, {"other"}, 1, kPositionalOnly);
  return Less(runtime, bound[0], subject, ">");
}

bool AtMost(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  const Bound bound("le", arguments, {"other"}, 1, kPositionalOnly);
  return LessOrEqual(runtime, subject, bound[0], "<=");
}

bool AtLeast(Runtime& runtime, const Value& subject, const Arguments& arguments) {
  const Bound bound("ge", arguments, {"other"}, 1, kPositionalOnly);
  return LessOrEqual(runtime, bound[0], subject, ">=");
}

constexpr TestEntry kTests[] = {
    {"odd", Odd},
    {"even", Even},
    {"divisibleby", DivisibleBy},
    {"defined", Defined},
    {"undefined", HasKind<Kind::kUndefined>},
    {"filter", IsFilter},
    {"test", IsTest},
    {"none", HasKind<Kind::kNone>},
    {"boolean", HasKind<Kind::kBool>},
    {"false", IsBool<false>},
    {"true", IsBool<true>},
    {"integer", HasKind<Kind::kInt>},
    {"float", HasKind<Kind::kFloat>},
    {"lower", Cased<false>},
    {"upper", Cased<true>},
    {"string", HasKind<Kind::kString>},
    {"mapping", HasKind<Kind::kDict>},
    {"number", HasKind<Kind::kBool, Kind::kInt, Kind::kFloat>},
    {"sequence", Sequence},
    {"iterable", Iterable},
    {"callable", Callable},
    {"sameas", SameAs},
    {"escaped", Escaped},
    {"in", In},
    {"==", IsEqual<true>},
    {"eq", IsEqual<true>},
    {"equalto", IsEqual<true>},
    {"!=", IsEqual<false>},
    {"ne", IsEqual<false>},
    {">", GreaterThan},
    {"gt", GreaterThan},
    {"greaterthan", GreaterThan},
    {"ge", AtLeast},
    {">=", AtLeast},
    {"<", LessThan},
    {"lt", LessThan},
    {"lessthan", LessThan},
    {"<=", AtMost},
    {"le", AtMost},
};

}  // namespace

std::span<const TestEntry> Tests() { return kTests; }

const TestEntry* FindTest(std::string_view name) {
  const auto found = std::find_if(std::begin(kTests), std::end(kTests),
                                  [name](const TestEntry& test) { return test.name == name; });
  return found == std::end(kTests) ? nullptr : found;
}

}  // namespace sluice::text::jinja
