// Filters over sequences and mappings, and those that make numbers. Those that are generators in
// Python are worked out at once, but can be read once as there.

#include <algorithm>
#include <cmath>

#include "base/utf8.h"
#include "text/jinja/builtins.h"
#include "text/jinja/failure.h"
#include "text/jinja/numbers.h"
#include "text/jinja/operators.h"
#include "text/unicode/python_str.h"

namespace sluice::text::jinja {
namespace {

// Looks up "a.b.0" step by step, as the `attribute` argument of filters means it.
class AttributeGetter {
 public:
  // `attribute` is None (the item itself), a str or an int.
  AttributeGetter(Runtime& runtime, const Value& attribute) {
    if (attribute.IsNone()) return;
    if (!attribute.IsString()) {
      parts_.push_back(attribute);
      return;
    }
    runtime.Work(attribute.text().size() * 16);
    for (std::string_view part : SplitText(runtime, attribute.text(), ".", -1)) {
      const bool is_index =
          !part.empty() && part.find_first_not_of("0123456789") == std::string_view::npos;
      parts_.push_back(is_index ? Value::Integer(ParseInteger(part).value_or(0))
                                : runtime.String(std::string(part)));
    }
  }

  // `fallback` takes the place of what is undefined on the way, if it is not null.
  Value Get(Runtime& runtime, const Value& item, const Value* fallback = nullptr) const {
    Value value = item;
    runtime.Step(parts_.size());
    for (const Value& part : parts_) {
      value = GetItem(runtime, value, part);
      if (fallback != nullptr && value.IsUndefined()) value = *fallback;
    }
    return value;
  }

 private:
  std::vector<Value> parts_;
};

// Strings in lower case unless `case_sensitive`; other values as they are.
Value SortKey(Runtime& runtime, const Value& value, bool case_sensitive) {
  if (case_sensitive || !value.IsString()) return value;
  runtime.Work(value.text().size() * 8);
  return runtime.String(ToLower(value.text()), value.markup());
}

// ---- One item, or one value of all

Value Default(Runtime&, const Value& self, const Bound& bound) {
  if (self.IsUndefined() || (bound.Flag(1, false) && !Truthy(self))) {
    return bound.Or(0, Value::Constant(""));
  }
  return self;
}

Value LengthFilter(Runtime&, const Value& self, const Bound&) {
  return Value::Integer(LengthOf(self));
}

Value First(Runtime& runtime, const Value& self, const Bound&) {
  if (self.IsString() && !self.text().empty()) {
    return runtime.String(self.text().substr(0, Utf8LengthAt(self.text(), 0)));
  }
  if (std::optional<Value> item = Iterate(runtime, self)->Next()) return *item;
  return runtime.Undefined("No first item, sequence was empty.");
}

Value Last(Runtime& runtime, const Value& self, const Bound&) {
  if (!Length(self)) Fail("'", TypeName(self), "' object is not reversible");
  if (*Length(self) == 0) return runtime.Undefined("No last item, sequence was empty.");
  if (std::optional<Value> item = FindItem(runtime, self, Value::Integer(-1))) return *item;
  return Collect(runtime, self).back();
}

Value Join(Runtime& runtime, const Value& self, const Bound& bound) {
  const std::string delimiter = bound.Has(0) ? ToString(runtime, bound[0]) : "";
  const AttributeGetter getter(runtime, bound.Or(1, Value()));
  TextBuilder out(runtime);
  bool first = true;
  for (const Value& item : Collect(runtime, self)) {
    if (!first) out.Append(delimiter);
    first = false;
    out.Append(getter.Get(runtime, item));
  }
  return out.Finish();
}

template <bool largest>
Value Extreme(Runtime& runtime, const Value& self, const Bound&) {
  std::optional<Value> best;
  Value best_key;
  for (const Value& item : Collect(runtime, self)) {
    Value key = SortKey(runtime, item, false);
    if (best && !Ordered(runtime, largest ? Op::kGreater : Op::kLess, key, best_key)) continue;
    best = item;
    best_key = std::move(key);
  }
  return best ? *best : runtime.Undefined("No aggregated item, sequence was empty.");
}

// ---- Sorting

using Keyed = std::pair<Value, Value>;  // the key that counts, and the item

Value SortKeyed(Runtime& runtime, std::vector<Keyed> items, bool reverse) {
  std::stable_sort(items.begin(), items.end(), [&](const Keyed& a, const Keyed& b) {
    const Value& first = reverse ? b.first : a.first;
    const Value& second = reverse ? a.first : b.first;
    return !Equal(runtime, first, second) && Less(runtime, first, second);
  });
  std::vector<Value> out;
  out.reserve(items.size());
  for (Keyed& keyed : items) out.push_back(std::move(keyed.second));
  return runtime.List(std::move(out));
}

Value Sort(Runtime& runtime, const Value& self, const Bound& bound) {
  const Value attribute = bound.Or(2, Value());
  if (attribute.IsString() && attribute.text().find(',') != std::string::npos) {
    Fail("sort by several attributes is not supported; chat templates may use one attribute");
  }
  const AttributeGetter getter(runtime, attribute);
  std::vector<Keyed> keyed;
  for (Value& item : Collect(runtime, self)) {
    Value key = SortKey(runtime, getter.Get(runtime, item), bound.Flag(1, false));
    keyed.emplace_back(std::move(key), std::move(item));
  }
  return SortKeyed(runtime, std::move(keyed), bound.Flag(0, false));
}

Value DictSort(Runtime& runtime, const Value& self, const Bound& bound) {
  if (self.IsUndefined()) Fail(self.undefined_message());
  if (!self.Is(Kind::kDict)) Fail("dictsort needs a dict, not ", TypeName(self));
  std::vector<Keyed> keyed;
  for (const auto& [key, value] : self.dict().entries) {
    keyed.emplace_back(SortKey(runtime, key, bound.Flag(0, false)), runtime.Tuple({key, value}));
  }
  return SortKeyed(runtime, std::move(keyed), bound.Flag(1, false));
}

// ---- New sequences

Value ListFilter(Runtime& runtime, const Value& self, const Bound&) {
  return runtime.List(Collect(runtime, self));
}

Value Items(Runtime& runtime, const Value& self, const Bound&) {
  if (self.IsUndefined()) return runtime.Generator({});
  if (!self.Is(Kind::kDict)) Fail("can only get item pairs from a mapping");
  return runtime.Generator(Collect(runtime, runtime.View(self, ViewKind::kItems)));
}

Value Unique(Runtime& runtime, const Value& self, const Bound& bound) {
  const AttributeGetter getter(runtime, bound.Or(1, Value()));
  DictBuilder seen(runtime);
  std::vector<Value> out;
  for (const Value& item : Collect(runtime, self)) {
    const Value key = SortKey(runtime, getter.Get(runtime, item), bound.Flag(0, false));
    if (seen.Set(key, Value())) out.push_back(item);
  }
  return runtime.Generator(std::move(out));
}

// The filter or test that the argument `place` names, and the arguments behind it, which it takes.
struct NamedCall {
  NamedCall(const Arguments& arguments, size_t place, const Builtin* (*find)(std::string_view),
            std::string (*describe_missing)(std::string_view)) {
    if (place >= arguments.positional.size()) return;
    const Value& name = arguments.positional[place];
    if (!name.IsString()) Fail("the name of a filter or test must be a str, not ", TypeName(name));
    builtin = find(name.text());
    if (builtin == nullptr) Fail(describe_missing(name.text()));
    rest.positional.assign(arguments.positional.begin() + static_cast<ptrdiff_t>(place) + 1,
                           arguments.positional.end());
    rest.named = arguments.named;
  }
  const Builtin* builtin = nullptr;  // null: no name was given
  Arguments rest;
};

// map(filter, its arguments ...), or map(attribute=..., default=...)
Value Map(Runtime& runtime, const Value& self, const Bound& bound) {
  const Arguments& arguments = bound.all();
  if (!Truthy(self)) return runtime.Generator({});
  const NamedCall call(arguments, 0, FindFilter, NoSuchFilter);
  Value attribute;
  const Value* fallback = nullptr;
  for (const auto& [name, value] : arguments.named) {
    if (call.builtin != nullptr) break;
    if (name == "attribute") {
      attribute = value;
    } else if (name == "default") {
      fallback = value.IsNone() ? nullptr : &value;
    } else {
      Fail("map() got an unexpected keyword argument '", name, "'");
    }
  }
  if (call.builtin == nullptr && attribute.IsNone()) Fail("map() needs a filter or an attribute");
  const AttributeGetter getter(runtime, attribute);
  std::vector<Value> out;
  for (const Value& item : Collect(runtime, self)) {
    out.push_back(call.builtin != nullptr ? call.builtin->Call(runtime, item, call.rest)
                                          : getter.Get(runtime, item, fallback));
  }
  return runtime.Generator(std::move(out));
}

// select(test, its arguments ...), selectattr(attribute, test, its arguments ...)
template <bool by_attribute, bool wanted>
Value Select(Runtime& runtime, const Value& self, const Bound& bound) {
  const Arguments& arguments = bound.all();
  if (!Truthy(self)) return runtime.Generator({});
  if (by_attribute && arguments.positional.empty()) Fail("the name of an attribute is missing");
  const NamedCall call(arguments, by_attribute ? 1 : 0, FindTest, NoSuchTest);
  const AttributeGetter getter(runtime, by_attribute ? arguments.positional[0] : Value());
  std::vector<Value> out;
  for (const Value& item : Collect(runtime, self)) {
    Value tested = getter.Get(runtime, item);
    if (call.builtin != nullptr) tested = call.builtin->Call(runtime, tested, call.rest);
    if (Truthy(tested) == wanted) out.push_back(item);
  }
  return runtime.Generator(std::move(out));
}

// ---- Numbers

// int(value), where a string may also hold a float.
Value IntFilter(Runtime& runtime, const Value& self, const Bound& bound) {
  if (self.IsUndefined()) Fail(self.undefined_message());
  if (self.IsIntegral()) return Value::Integer(self.integer());
  std::optional<double> number;
  if (self.Is(Kind::kFloat)) {
    if (std::isinf(self.real())) Fail("cannot convert float infinity to integer");
    number = self.real();
  } else if (self.IsString()) {
    runtime.Work(self.text().size() * 8);
    if (const auto value = ParseInteger(self.text())) return Value::Integer(*value);
    number = ParseFloat(self.text());
  }
  if (!number || !std::isfinite(*number)) return bound.Or(0, Value::Integer(0));
  if (std::fabs(*number) >= 0x1p126) Fail("an integer is larger than 127 bits");
  return Value::Integer(static_cast<Int>(*number));
}

constexpr Builtin kFilters[] = {
    {"count", LengthFilter},
    {"d", Default, {"default_value", "boolean"}},
    {"default", Default, {"default_value", "boolean"}},
    {"dictsort", DictSort, {"case_sensitive", "reverse"}},
    {"first", First},
    {"int", IntFilter, {"default"}},
    {"items", Items},
    {"join", Join, {"d", "attribute"}},
    {"last", Last},
    {"length", LengthFilter},
    {"list", ListFilter},
    {"map", Map, {}, kAnyArguments},
    {"max", Extreme<true>},
    {"min", Extreme<false>},
    {"reject", Select<false, false>, {}, kAnyArguments},
    {"rejectattr", Select<true, false>, {}, kAnyArguments},
    {"select", Select<false, true>, {}, kAnyArguments},
    {"selectattr", Select<true, true>, {}, kAnyArguments},
    {"sort", Sort, {"reverse", "case_sensitive", "attribute"}},
    {"unique", Unique, {"case_sensitive", "attribute"}},
};

}  // namespace

Builtins SequenceFilters() { return kFilters; }

}  // namespace sluice::text::jinja
