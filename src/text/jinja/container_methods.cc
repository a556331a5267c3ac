// The methods of lists, tuples, ranges, dicts, numbers and cyclers.

#include <algorithm>
#include <cmath>
#include <iterator>

#include "text/jinja/arguments.h"
#include "text/jinja/failure.h"
#include "text/jinja/methods.h"
#include "text/jinja/operators.h"
#include "text/jinja/unicode.h"

namespace sluice::text::jinja {
namespace {

template <size_t n>
const Method* FindIn(const Method (&methods)[n], std::string_view name) {
  const auto found = std::find_if(std::begin(methods), std::end(methods),
                                  [name](const Method& method) { return method.name == name; });
  return found == std::end(methods) ? nullptr : found;
}

// ---- Lists

Value ListCopy(Runtime& runtime, const Value& self, const Arguments& arguments) {
  Bound("copy", arguments, {}, 0);
  return runtime.List(Collect(runtime, self));
}

Value ListCount(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound bound("count", arguments, {"value"}, 1, kPositionalOnly);
  Int count = 0;
  for (const Value& item : Collect(runtime, self)) {
    if (Equal(runtime, item, bound[0])) ++count;
  }
  return Value::Integer(count);
}

Value ListIndex(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound bound("index", arguments, {"value", "start", "stop"}, 1, kPositionalOnly);
  const std::vector<Value> items = Collect(runtime, self);
  const int64_t size = static_cast<int64_t>(items.size());
  const auto clamp = [size](int64_t at) {
    return at < 0 ? std::max<int64_t>(at + size, 0) : std::min(at, size);
  };
  const int64_t stop = clamp(bound.Integer(2, size));
  for (int64_t i = clamp(bound.Integer(1, 0)); i < stop; ++i) {
    const Value& item = items[static_cast<size_t>(i)];
    if (Equal(runtime, item, bound[0])) return Value::Integer(i);
  }
  Fail(Utf8Prefix(Repr(runtime, bound[0]), kQuotedBytesMax), " is not in the ", TypeName(self));
}

constexpr Method kListMethods[] = {{"copy", ListCopy}, {"count", ListCount}, {"index", ListIndex}};

// ---- Dicts

Value DictGet(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const Bound bound("get", arguments, {"key", "default"}, 1, kPositionalOnly);
  const Value* value = self.dict().Find(runtime, bound[0]);
  return value != nullptr ? *value : bound.Or(1, Value());
}

template <ViewKind what>
Value DictView(Runtime& runtime, const Value& self, const Arguments& arguments) {
  Bound("dict view", arguments, {}, 0);
  return runtime.View(self, what);
}

Value DictCopy(Runtime& runtime, const Value& self, const Arguments& arguments) {
  Bound("copy", arguments, {}, 0);
  runtime.CheckCount(self.dict().entries.size() * 2);
  return runtime.Dict(self.dict().entries);
}

Value DictFromKeys(Runtime& runtime, const Value&, const Arguments& arguments) {
  const Bound bound("fromkeys", arguments, {"iterable", "value"}, 1, kPositionalOnly);
  DictBuilder out(runtime);
  std::shared_ptr<Iterator> iterator = Iterate(runtime, bound[0]);
  Value key;
  while (iterator->Next(runtime, &key)) out.Set(key, bound.Or(1, Value()));
  return out.Finish();
}

constexpr Method kDictMethods[] = {
    {"copy", DictCopy},
    {"fromkeys", DictFromKeys},
    {"get", DictGet},
    {"items", DictView<ViewKind::kItems>},
    {"keys", DictView<ViewKind::kKeys>},
    {"values", DictView<ViewKind::kValues>},
};

// ---- Numbers

Value BitLength(Runtime&, const Value& self, const Arguments& arguments) {
  Bound("bit_length", arguments, {}, 0);
  Int magnitude = self.integer() < 0 ? -(self.integer() + 1) + 1 : self.integer();
  Int bits = 0;
  for (; magnitude != 0; magnitude /= 2) ++bits;
  return Value::Integer(bits);
}

Value BitCount(Runtime&, const Value& self, const Arguments& arguments) {
  Bound("bit_count", arguments, {}, 0);
  Int bits = 0;
  for (Int rest = self.integer(); rest != 0; rest /= 2) bits += rest % 2 != 0 ? 1 : 0;
  return Value::Integer(bits);
}

Value Conjugate(Runtime&, const Value& self, const Arguments& arguments) {
  Bound("conjugate", arguments, {}, 0);
  return Plus(self);
}

Value IsInteger(Runtime&, const Value& self, const Arguments& arguments) {
  Bound("is_integer", arguments, {}, 0);
  return Value::Bool(std::isfinite(self.real()) && self.real() == std::floor(self.real()));
}

constexpr Method kNumberMethods[] = {{"bit_count", BitCount},
                                     {"bit_length", BitLength},
                                     {"conjugate", Conjugate},
                                     {"is_integer", IsInteger}};

// ---- Cyclers

Value CyclerNext(Runtime&, const Value& self, const Arguments& arguments) {
  Bound("next", arguments, {}, 0);
  CyclerObject& cycler = self.As<CyclerObject>();
  const Value item = cycler.items.items()[cycler.position];
  cycler.position = (cycler.position + 1) % cycler.items.items().size();
  return item;
}

Value CyclerReset(Runtime&, const Value& self, const Arguments& arguments) {
  Bound("reset", arguments, {}, 0);
  self.As<CyclerObject>().position = 0;
  return {};
}

constexpr Method kCyclerMethods[] = {{"next", CyclerNext}, {"reset", CyclerReset}};

}  // namespace

std::span<const Method> ListMethods() { return kListMethods; }
std::span<const Method> DictMethods() { return kDictMethods; }
std::span<const Method> NumberMethods() { return kNumberMethods; }
std::span<const Method> CyclerMethods() { return kCyclerMethods; }

const Method* FindListMethod(std::string_view name) { return FindIn(kListMethods, name); }
const Method* FindDictMethod(std::string_view name) { return FindIn(kDictMethods, name); }
const Method* FindNumberMethod(std::string_view name) { return FindIn(kNumberMethods, name); }
const Method* FindCyclerMethod(std::string_view name) { return FindIn(kCyclerMethods, name); }
const Method* FindGlobalDictMethod(std::string_view name) {
  return name == "fromkeys" ? FindIn(kDictMethods, name) : nullptr;
}

}  // namespace sluice::text::jinja
