// The tests of `x is defined`, and of select and its like.

#include "text/jinja/builtins.h"
#include "text/jinja/operators.h"

namespace sluice::text::jinja {
namespace {

template <Kind... kinds>
Value HasKind(Runtime&, const Value& self, const Bound&) {
  return Value::Bool((self.Is(kinds) || ...));
}

Value Defined(Runtime&, const Value& self, const Bound&) {
  return Value::Bool(!self.IsUndefined());
}

template <bool wanted>
Value IsBool(Runtime&, const Value& self, const Bound&) {
  return Value::Bool(self.Is(Kind::kBool) && self.boolean() == wanted);
}

Value Sequence(Runtime&, const Value& self, const Bound&) {
  return Value::Bool(Length(self).has_value() && !self.Is(Kind::kView));
}

Value Iterable(Runtime&, const Value& self, const Bound&) { return Value::Bool(IsIterable(self)); }

bool DividesTo(Runtime& runtime, const Value& value, const Value& by, Int rest) {
  return Equal(runtime, Binary(runtime, Op::kModulo, value, by), Value::Integer(rest));
}

template <int rest>
Value HalvesTo(Runtime& runtime, const Value& self, const Bound&) {
  return Value::Bool(DividesTo(runtime, self, Value::Integer(2), rest));
}

Value DivisibleBy(Runtime& runtime, const Value& self, const Bound& bound) {
  return Value::Bool(DividesTo(runtime, self, bound[0], 0));
}

template <Op op>
Value Compares(Runtime& runtime, const Value& self, const Bound& bound) {
  return Value::Bool(Compare(runtime, op, self, bound[0]));
}

constexpr Builtin kTests[] = {
    {"boolean", HasKind<Kind::kBool>},
    {"defined", Defined},
    {"divisibleby", DivisibleBy, {"num"}, 1},
    {"even", HalvesTo<0>},
    {"false", IsBool<false>},
    {"float", HasKind<Kind::kFloat>},
    {"in", Compares<Op::kIn>, {"seq"}, 1},
    {"integer", HasKind<Kind::kInt>},
    {"iterable", Iterable},
    {"mapping", HasKind<Kind::kDict>},
    {"none", HasKind<Kind::kNone>},
    {"number", HasKind<Kind::kBool, Kind::kInt, Kind::kFloat>},
    {"odd", HalvesTo<1>},
    {"sequence", Sequence},
    {"string", HasKind<Kind::kString>},
    {"true", IsBool<true>},
    {"undefined", HasKind<Kind::kUndefined>},
    {"==", Compares<Op::kEqual>, {"other"}, 1},
    {"eq", Compares<Op::kEqual>, {"other"}, 1},
    {"equalto", Compares<Op::kEqual>, {"other"}, 1},
    {"!=", Compares<Op::kNotEqual>, {"other"}, 1},
    {"ne", Compares<Op::kNotEqual>, {"other"}, 1},
    {">", Compares<Op::kGreater>, {"other"}, 1},
    {"gt", Compares<Op::kGreater>, {"other"}, 1},
    {"greaterthan", Compares<Op::kGreater>, {"other"}, 1},
    {">=", Compares<Op::kGreaterEqual>, {"other"}, 1},
    {"ge", Compares<Op::kGreaterEqual>, {"other"}, 1},
    {"<", Compares<Op::kLess>, {"other"}, 1},
    {"lt", Compares<Op::kLess>, {"other"}, 1},
    {"lessthan", Compares<Op::kLess>, {"other"}, 1},
    {"<=", Compares<Op::kLessEqual>, {"other"}, 1},
    {"le", Compares<Op::kLessEqual>, {"other"}, 1},
};

}  // namespace

Builtins Tests() { return kTests; }

}  // namespace sluice::text::jinja
