#include <algorithm>

#include "text/jinja/failure.h"
#include "text/jinja/loop.h"
#include "text/jinja/methods.h"
#include "text/jinja/operators.h"
#include "text/jinja/scope.h"
#include "text/jinja/unicode.h"

namespace sluice::text::jinja {
namespace {

template <size_t n>
bool IsOneOf(std::string_view name, const std::string_view (&names)[n]) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

// Methods that would change a list or a dict: the sandbox hides them.
constexpr std::string_view kListMutators[] = {"append", "clear", "pop",    "reverse",
                                              "insert", "sort",  "extend", "remove"};
constexpr std::string_view kDictMutators[] = {"clear", "pop", "popitem", "setdefault", "update"};
// Attributes that every Python object has and the sandbox hides.
constexpr std::string_view kHidden[] = {
    "__class__",  "__delattr__",   "__dir__",         "__doc__",
    "__eq__",     "__format__",    "__ge__",          "__getattribute__",
    "__gt__",     "__hash__",      "__init__",        "__init_subclass__",
    "__le__",     "__lt__",        "__ne__",          "__new__",
    "__reduce__", "__reduce_ex__", "__repr__",        "__setattr__",
    "__sizeof__", "__str__",       "__subclasshook__"};

Value Unsafe(Runtime& runtime, const Value& object, std::string_view name) {
  return runtime.Undefined(
      StrCat("access to attribute '", name, "' of '", TypeName(object), "' object is unsafe"));
}

std::optional<Value> BindMethod(Runtime& runtime, const Value& object, const Method* method) {
  if (method == nullptr) return std::nullopt;
  return runtime.Method(method->name, method->call, object);
}

std::optional<Value> TupleAttribute(Runtime& runtime, const Value& object, std::string_view name) {
  if (object.As<SequenceObject>().group) {
    if (name == "grouper") return object.items()[0];
    if (name == "list") return object.items()[1];
  }
  return BindMethod(runtime, object, FindListMethod(name));
}

std::optional<Value> RangeAttribute(Runtime& runtime, const Value& object, std::string_view name) {
  const RangeObject& range = object.As<RangeObject>();
  if (name == "start") return Value::Integer(range.start);
  if (name == "stop") return Value::Integer(range.stop);
  if (name == "step") return Value::Integer(range.step);
  return BindMethod(runtime, object, FindListMethod(name));
}

std::optional<Value> NumberAttribute(Runtime& runtime, const Value& object, std::string_view name) {
  const bool is_float = object.Is(Kind::kFloat);
  if (name == "real") return is_float ? object : Value::Integer(object.integer());
  if (name == "imag") return is_float ? Value::Float(0.0) : Value::Integer(0);
  if (!is_float && name == "numerator") return Value::Integer(object.integer());
  if (!is_float && name == "denominator") return Value::Integer(1);
  if (is_float != (name == "is_integer") && name != "conjugate") return std::nullopt;
  return BindMethod(runtime, object, FindNumberMethod(name));
}

std::optional<Value> MacroAttribute(Runtime& runtime, const Value& object, std::string_view name) {
  const MacroDefinition& macro = *object.As<MacroObject>().definition;
  if (name == "name") return macro.anonymous ? Value() : runtime.String(macro.name);
  if (name == "catch_kwargs") return Value::Bool(macro.takes_kwargs);
  if (name == "catch_varargs") return Value::Bool(macro.takes_varargs);
  if (name == "caller") return Value::Bool(macro.takes_caller);
  if (name == "arguments") {
    std::vector<Value> names;
    for (const auto& parameter : macro.parameters) {
      names.push_back(runtime.String(parameter.second));
    }
    return runtime.Tuple(std::move(names));
  }
  return std::nullopt;
}

std::optional<Value> CyclerAttribute(Runtime& runtime, const Value& object, std::string_view name) {
  const CyclerObject& cycler = object.As<CyclerObject>();
  if (name == "items") return cycler.items;
  if (name == "pos") return Value::Integer(static_cast<Int>(cycler.position));
  if (name == "current") return cycler.items.items()[cycler.position];
  return BindMethod(runtime, object, FindCyclerMethod(name));
}

std::optional<Value> KindAttribute(Runtime& runtime, const Value& object, std::string_view name) {
  switch (object.kind()) {
    case Kind::kString:
      return BindMethod(runtime, object, FindStringMethod(name));
    case Kind::kList:
      if (name == "copy" || !IsOneOf(name, kListMutators)) {
        return BindMethod(runtime, object, FindListMethod(name));
      }
      return Unsafe(runtime, object, name);
    case Kind::kTuple:
      return name == "copy" ? std::nullopt : TupleAttribute(runtime, object, name);
    case Kind::kRange:
      return name == "copy" ? std::nullopt : RangeAttribute(runtime, object, name);
    case Kind::kDict:
      if (IsOneOf(name, kDictMutators)) return Unsafe(runtime, object, name);
      return BindMethod(runtime, object, FindDictMethod(name));
    case Kind::kBool:
    case Kind::kInt:
    case Kind::kFloat:
      return NumberAttribute(runtime, object, name);
    case Kind::kLoop: {
      std::optional<Value> value = object.As<LoopObject>().Attribute(runtime, name);
      return value ? value : BindMethod(runtime, object, FindLoopMethod(name));
    }
    case Kind::kMacro:
      return MacroAttribute(runtime, object, name);
    case Kind::kCycler:
      return CyclerAttribute(runtime, object, name);
    case Kind::kJoiner:
      if (name == "sep") return object.As<JoinerObject>().separator;
      if (name == "used") return Value::Bool(object.As<JoinerObject>().used);
      return std::nullopt;
    case Kind::kFunction:
      if (object.As<FunctionObject>().name == "dict" && object.As<FunctionObject>().self.IsNone()) {
        return BindMethod(runtime, object, FindGlobalDictMethod(name));
      }
      return std::nullopt;
    default:
      return std::nullopt;
  }
}

std::string DescribeMissing(const Value& object, std::string_view name) {
  const std::string type = TypeName(object);
  return StrCat("'", object.IsNone() ? "None" : type, object.IsNone() ? "" : " object",
                "' has no attribute '", Utf8Prefix(name, kQuotedBytesMax), "'");
}

Value NoItem(Runtime& runtime, const Value& object, const Value& key) {
  if (key.IsString()) return runtime.Undefined(DescribeMissing(object, key.text()));
  return runtime.Undefined(StrCat(TypeName(object), " object has no element ",
                                  Utf8Prefix(Repr(runtime, key), kQuotedBytesMax)));
}

// A place in a sequence of `size` items, counted from the end if negative; nothing if outside.
std::optional<size_t> Place(const Value& index, int64_t size) {
  if (!index.IsIntegral()) return std::nullopt;
  Int place = index.integer();
  if (place < 0) place += size;
  if (place < 0 || place >= size) return std::nullopt;
  return static_cast<size_t>(place);
}

std::optional<Value> CharAt(Runtime& runtime, const Value& text, const Value& index) {
  const std::optional<size_t> place = Place(index, static_cast<int64_t>(text.chars()));
  if (!place) return std::nullopt;
  if (text.chars() == text.text().size()) {
    return runtime.String(text.text().substr(*place, 1), text.markup());
  }
  runtime.Work(text.text().size());
  const size_t start = Utf8Offset(text.text(), *place);
  return runtime.String(text.text().substr(start, Utf8LengthAt(text.text(), start)), text.markup());
}

struct Bounds {
  int64_t start, stop, step;
  int64_t count = 0;
};

int64_t SliceIndex(const Value& value) {
  if (!value.IsIntegral()) Fail("slice indices must be integers or None");
  return Index(value);
}

// The places that a slice takes from a sequence of `size` items.
Bounds ResolveSlice(const Value& start, const Value& stop, const Value& step, int64_t size) {
  Bounds bounds{};
  bounds.step = step.IsNone() ? 1 : SliceIndex(step);
  if (bounds.step == 0) Fail("a slice step cannot be zero");
  bounds.step = std::clamp<int64_t>(bounds.step, -(int64_t{1} << 62), int64_t{1} << 62);
  const bool forward = bounds.step > 0;
  const int64_t low = forward ? 0 : -1;
  const int64_t high = forward ? size : size - 1;
  const auto resolve = [&](const Value& value, int64_t fallback) {
    if (value.IsNone()) return fallback;
    int64_t place = std::clamp<int64_t>(SliceIndex(value), -(int64_t{1} << 62), int64_t{1} << 62);
    if (place < 0) place += size;
    return std::clamp(place, low, high);
  };
  bounds.start = resolve(start, forward ? low : high);
  bounds.stop = resolve(stop, forward ? high : low);
  const int64_t span = forward ? bounds.stop - bounds.start : bounds.start - bounds.stop;
  const int64_t stride = forward ? bounds.step : -bounds.step;
  if (span > 0) bounds.count = (span - 1) / stride + 1;
  return bounds;
}

Value SliceText(Runtime& runtime, const Value& object, const Bounds& bounds) {
  const std::string& text = object.text();
  const bool ascii = object.chars() == text.size();
  runtime.Work(text.size());
  std::string out;
  if (bounds.step == 1) {
    const size_t start = static_cast<size_t>(bounds.start);
    const size_t stop = static_cast<size_t>(std::max(bounds.start, bounds.stop));
    const size_t from = ascii ? start : Utf8Offset(text, start);
    const size_t to =
        ascii ? stop : from + Utf8Offset(std::string_view(text).substr(from), stop - start);
    out = text.substr(from, to - from);
  } else if (ascii) {
    for (int64_t i = 0; i < bounds.count; ++i) {
      out.push_back(text[static_cast<size_t>(bounds.start + i * bounds.step)]);
    }
  } else {
    std::vector<std::string_view> chars;
    chars.reserve(object.chars());
    for (size_t place = 0; place < text.size();) {
      const size_t bytes = Utf8LengthAt(text, place);
      chars.push_back(std::string_view(text).substr(place, bytes));
      place += bytes;
    }
    for (int64_t i = 0; i < bounds.count; ++i) {
      out += chars[static_cast<size_t>(bounds.start + i * bounds.step)];
    }
  }
  return runtime.String(std::move(out), object.markup());
}

}  // namespace

std::optional<Value> FindAttribute(Runtime& runtime, const Value& object, std::string_view name) {
  runtime.Step();
  runtime.Work(name.size() * 8);
  if (object.IsUndefined() && name.substr(0, 2) != "__") Fail(object.undefined_message());
  if (IsOneOf(name, kHidden)) return Unsafe(runtime, object, name);
  if (object.Is(Kind::kNamespace)) {
    runtime.Step(object.As<NamespaceObject>().attributes.size() / 16);
    const Value* value = object.As<NamespaceObject>().Find(name);
    return value == nullptr ? std::nullopt : std::optional<Value>(*value);
  }
  return KindAttribute(runtime, object, name);
}

std::optional<Value> FindItem(Runtime& runtime, const Value& object, const Value& key) {
  runtime.Step();
  switch (object.kind()) {
    case Kind::kUndefined:
      Fail(object.undefined_message());
    case Kind::kDict: {
      if (!IsHashable(runtime, key)) return std::nullopt;
      const Value* value = object.dict().Find(runtime, key);
      return value == nullptr ? std::nullopt : std::optional<Value>(*value);
    }
    case Kind::kList:
    case Kind::kTuple: {
      const auto place = Place(key, static_cast<int64_t>(object.items().size()));
      return place ? std::optional<Value>(object.items()[*place]) : std::nullopt;
    }
    case Kind::kRange: {
      const auto place = Place(key, object.As<RangeObject>().size);
      if (!place) return std::nullopt;
      return Value::Integer(object.As<RangeObject>().At(static_cast<int64_t>(*place)));
    }
    case Kind::kString:
      return CharAt(runtime, object, key);
    default:
      return std::nullopt;
  }
}

Value GetAttribute(Runtime& runtime, const Value& object, std::string_view name) {
  if (std::optional<Value> value = FindAttribute(runtime, object, name)) return *value;
  if (object.Is(Kind::kDict)) {
    if (const Value* value = object.dict().Find(name)) return *value;
  }
  if (object.IsUndefined()) Fail(object.undefined_message());
  return runtime.Undefined(DescribeMissing(object, name));
}

Value GetItem(Runtime& runtime, const Value& object, const Value& key) {
  if (std::optional<Value> value = FindItem(runtime, object, key)) return *value;
  if (key.IsString()) {
    if (std::optional<Value> value = FindAttribute(runtime, object, key.text())) return *value;
  }
  return NoItem(runtime, object, key);
}

Value Slice(Runtime& runtime, const Value& object, const Value& start, const Value& stop,
            const Value& step) {
  if (object.IsUndefined()) Fail(object.undefined_message());
  if (!object.IsString() && !object.IsSequence() && !object.Is(Kind::kRange)) {
    Fail("'", TypeName(object), "' object cannot be sliced");
  }
  const Bounds bounds = ResolveSlice(start, stop, step, *Length(object));
  if (object.IsString()) return SliceText(runtime, object, bounds);
  if (object.Is(Kind::kRange)) {
    const RangeObject& range = object.As<RangeObject>();
    const auto at = [&range](int64_t place) {
      return static_cast<int64_t>(static_cast<Int>(range.start) +
                                  static_cast<Int>(place) * range.step);
    };
    const int64_t stride = range.size <= 1 ? range.step : bounds.step * range.step;
    return runtime.Range(at(bounds.start), at(bounds.stop), stride);
  }
  std::vector<Value> out;
  out.reserve(static_cast<size_t>(bounds.count));
  for (int64_t i = 0; i < bounds.count; ++i) {
    out.push_back(object.items()[static_cast<size_t>(bounds.start + i * bounds.step)]);
  }
  return object.Is(Kind::kList) ? runtime.List(std::move(out)) : runtime.Tuple(std::move(out));
}

}  // namespace sluice::text::jinja
