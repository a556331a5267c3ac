#include <algorithm>

#include "base/utf8.h"
#include "text/jinja/builtins.h"
#include "text/jinja/failure.h"
#include "text/jinja/loop.h"
#include "text/jinja/operators.h"
#include "text/jinja/scope.h"

namespace sluice::text::jinja {
namespace {

constexpr std::string_view kIntAttributes =
    "real imag numerator denominator bit_count bit_length conjugate to_bytes from_bytes "
    "as_integer_ratio";

// The attributes of Python's built-in types: methods that templates may call, those that would
// change the object, which the sandbox hides, and those that are not supported.
struct Attributes {
  Kind kind;
  Builtins (*methods)();
  std::string_view hidden;
  std::string_view unsupported;
};

constexpr Attributes kAttributes[] = {
    {Kind::kString, StringMethods, "",
     "casefold center count encode expandtabs find format_map index isalnum isalpha isascii "
     "isdecimal isdigit isidentifier islower isnumeric isprintable isspace istitle "
     "isupper ljust maketrans partition removeprefix removesuffix rfind rindex rjust "
     "rpartition swapcase translate zfill"},
    {Kind::kList, ListMethods, "append clear pop reverse insert sort extend remove", "copy"},
    {Kind::kTuple, ListMethods, "", ""},
    {Kind::kRange, ListMethods, "", "start stop step"},
    {Kind::kDict, DictMethods, "clear pop popitem setdefault update", "copy fromkeys"},
    {Kind::kBool, NoMethods, "", kIntAttributes},
    {Kind::kInt, NoMethods, "", kIntAttributes},
    {Kind::kFloat, NoMethods, "", "real imag is_integer conjugate hex fromhex as_integer_ratio"},
    {Kind::kFunction, NoMethods, "", "fromkeys"},
    {Kind::kMacro, NoMethods, "", "arguments caller catch_kwargs catch_varargs"},
};
constexpr Attributes kNoAttributes = {Kind::kNone, NoMethods, "", ""};

const Attributes& AttributesOf(const Value& object) {
  const auto* const found = std::find_if(std::begin(kAttributes), std::end(kAttributes),
                                         [&](const auto& one) { return object.Is(one.kind); });
  return found == std::end(kAttributes) ? kNoAttributes : *found;
}

bool IsListed(std::string_view list, std::string_view name) {
  for (size_t at = list.find(name); at != std::string_view::npos; at = list.find(name, at + 1)) {
    const size_t end = at + name.size();
    if ((at == 0 || list[at - 1] == ' ') && (end == list.size() || list[end] == ' ')) return true;
  }
  return false;
}

std::optional<Value> Found(const Value* value) {
  return value == nullptr ? std::nullopt : std::optional<Value>(*value);
}

std::optional<Value> KindAttribute(Runtime& runtime, const Value& object, std::string_view name) {
  if (object.Is(Kind::kLoop)) return object.As<LoopObject>().Attribute(runtime, name);
  const Attributes& attributes = AttributesOf(object);
  if (const Builtin* method = Find(attributes.methods(), name)) {
    return runtime.Function(method, object);
  }
  // What every Python object has begins with two underscores; the sandbox hides that too.
  if (name.substr(0, 2) == "__" || IsListed(attributes.hidden, name)) {
    return runtime.Undefined(StrCat("access to attribute '", Utf8Prefix(name, kQuotedBytesMax),
                                    "' of '", TypeName(object), "' object is unsafe"));
  }
  if (object.Is(Kind::kMacro) && name == "name") {
    const Statement& macro = *object.As<MacroObject>().definition;
    return macro.kind == StatementKind::kMacro ? runtime.String(macro.target->text) : Value();
  }
  if (IsListed(attributes.unsupported, name)) {
    Fail(NotSupported(TypeName(object) + " attribute", name, attributes.methods()));
  }
  return std::nullopt;
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

// Where a string's character of that index starts.
size_t ByteOf(const Value& text, int64_t index) {
  const size_t place = static_cast<size_t>(index);
  return text.chars() == text.text().size() ? place : Utf8Offset(text.text(), place);
}

std::optional<Value> CharAt(Runtime& runtime, const Value& text, const Value& index) {
  const std::optional<size_t> place = Place(index, static_cast<int64_t>(text.chars()));
  if (!place) return std::nullopt;
  if (text.chars() != text.text().size()) runtime.Work(text.text().size());
  const size_t start = ByteOf(text, static_cast<int64_t>(*place));
  return runtime.String(text.text().substr(start, Utf8LengthAt(text.text(), start)), text.markup());
}

int64_t SliceIndex(const Value& value) {
  if (!value.IsIntegral()) Fail("slice indices must be integers or None");
  return Index(value);
}

// The places that a slice takes from a sequence of `size` items.
Progression ResolveSlice(const Value& start, const Value& stop, const Value& step, int64_t size) {
  const int64_t stride = step.IsNone() ? 1 : SliceIndex(step);
  if (stride == 0) Fail("a slice step cannot be zero");
  const int64_t low = stride > 0 ? 0 : -1;
  const int64_t high = stride > 0 ? size : size - 1;
  const auto resolve = [&](const Value& value, int64_t fallback) {
    if (value.IsNone()) return fallback;
    const int64_t place = SliceIndex(value);
    return std::clamp(place < 0 ? place + size : place, low, high);
  };
  return {resolve(start, stride > 0 ? low : high), resolve(stop, stride > 0 ? high : low), stride};
}

}  // namespace

std::optional<Value> FindAttribute(Runtime& runtime, const Value& object, std::string_view name) {
  runtime.Step();
  runtime.Work(name.size() * 8);
  if (object.IsUndefined() && name.substr(0, 2) != "__") Fail(object.undefined_message());
  if (object.Is(Kind::kNamespace)) {
    runtime.Step(object.As<NamespaceObject>().entries.size() / 16);
    return Found(object.As<NamespaceObject>().Find(name));
  }
  return KindAttribute(runtime, object, name);
}

std::optional<Value> FindItem(Runtime& runtime, const Value& object, const Value& key) {
  runtime.Step();
  CheckDefined(object);
  if (object.IsString()) return CharAt(runtime, object, key);
  if (object.Is(Kind::kDict)) {
    if (!IsHashable(runtime, key)) return std::nullopt;
    return Found(object.dict().Find(runtime, key));
  }
  if (!object.IsSequence() && !object.Is(Kind::kRange)) return std::nullopt;
  const std::optional<size_t> place = Place(key, *Length(object));
  return place ? std::optional<Value>(ItemAt(runtime, object, *place)) : std::nullopt;
}

Value GetAttribute(Runtime& runtime, const Value& object, std::string_view name) {
  if (std::optional<Value> value = FindAttribute(runtime, object, name)) return *value;
  if (object.Is(Kind::kDict)) {
    if (const Value* value = object.dict().Find(name)) return *value;
  }
  CheckDefined(object);
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
  CheckDefined(object);
  if (object.Is(Kind::kRange)) {
    Fail(NotSupported("slice of a", "range", "slices of a list, a tuple or a str"));
  }
  if (!object.IsString() && !object.IsSequence()) {
    Fail("'", TypeName(object), "' object cannot be sliced");
  }
  const Progression places = ResolveSlice(start, stop, step, *Length(object));
  if (object.IsString() && places.step == 1) {
    runtime.Work(object.text().size());
    const size_t from = ByteOf(object, places.start);
    const size_t to = ByteOf(object, std::max(places.start, places.stop));
    return runtime.String(object.text().substr(from, to - from), object.markup());
  }
  const Value source = object.IsString() ? runtime.List(Collect(runtime, object)) : object;
  std::vector<Value> out;
  const int64_t size = places.Size();
  out.reserve(static_cast<size_t>(size));
  for (int64_t i = 0; i < size; ++i) {
    out.push_back(source.items()[static_cast<size_t>(places.start + i * places.step)]);
  }
  if (!object.IsString()) return runtime.Sequence(object.kind(), std::move(out));
  TextBuilder text(runtime);
  for (const Value& character : out) text.Append(character);
  return text.Finish(object.markup());
}

}  // namespace sluice::text::jinja
