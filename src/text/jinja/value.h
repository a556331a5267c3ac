// The values of a template: Python's None, bool, int, float, str, list, tuple and dict, and the
// objects that Jinja adds (undefined, namespaces, macros, lazy iterators ...). Values are cheap to
// copy; strings, lists, tuples and dicts never change after they are made. A value made while
// rendering belongs to that rendering and its thread and must not outlive its Runtime; the string
// constants of a parsed template are shared by all threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice::text::jinja {

class Runtime;

// Python's integers are unbounded; ours hold every JSON integer and report an overflow.
using Int = __int128;

enum class Kind : uint8_t {
  kUndefined,
  kNone,
  kBool,
  kInt,
  kFloat,
  kString,
  kList,
  kTuple,
  kDict,
  kView,  // dict.keys(), .values(), .items()
  kRange,
  kIterator,  // a generator: read once
  kNamespace,
  kLoop,
  kMacro,
  kFunction,  // a global function or a method bound to its object
};

// Live bytes of one rendering.
struct Meter {
  // Counts `bytes` more; throws Failure when that is over the limit.
  void Take(size_t bytes);

  size_t live_bytes = 0;
  size_t live_bytes_max = 0;
};

// What a value points at. Counts itself into a Meter while it lives (constants have none).
class Object {
 public:
  // Throws Failure when the meter is full or `depth` (of nested objects) is over the limit.
  Object(Meter* meter, size_t bytes, int depth);
  virtual ~Object();
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;

  // Counts `bytes` more of this object.
  void Grow(size_t bytes);
  int depth() const { return depth_; }

 private:
  Meter* meter_;
  size_t bytes_;
  int depth_;
};

struct StringObject;
struct SequenceObject;
struct DictObject;

class Value {
 public:
  Value() = default;  // None
  Value(Kind kind, std::shared_ptr<Object> object) : kind_(kind), object_(std::move(object)) {}
  static Value Bool(bool value) { return {Kind::kBool, {.integer = value ? 1 : 0}}; }
  static Value Integer(Int value) { return {Kind::kInt, {.integer = value}}; }
  static Value Float(double value) { return {Kind::kFloat, {.real = value}}; }
  // A constant, which no Meter counts.
  static Value Constant(std::string text);

  Kind kind() const { return kind_; }
  bool Is(Kind kind) const { return kind_ == kind; }
  bool IsString() const { return kind_ == Kind::kString; }
  bool IsNone() const { return kind_ == Kind::kNone; }
  bool IsUndefined() const { return kind_ == Kind::kUndefined; }
  // An int or a bool, which Python takes for one.
  bool IsIntegral() const { return kind_ == Kind::kInt || kind_ == Kind::kBool; }
  bool IsNumber() const { return IsIntegral() || kind_ == Kind::kFloat; }
  bool IsSequence() const { return kind_ == Kind::kList || kind_ == Kind::kTuple; }

  bool boolean() const { return scalar_.integer != 0; }  // REQUIRES: kBool
  Int integer() const { return scalar_.integer; }        // REQUIRES: IsIntegral()
  double real() const { return scalar_.real; }           // REQUIRES: kFloat
  double AsDouble() const;                               // REQUIRES: IsNumber()
  const std::string& text() const;                       // REQUIRES: IsString()
  bool markup() const;                                   // a string marked safe
  size_t chars() const;                                  // REQUIRES: IsString(); code points
  const std::vector<Value>& items() const;               // REQUIRES: IsSequence()
  const DictObject& dict() const;                        // REQUIRES: kDict
  const std::string& undefined_message() const;          // REQUIRES: kUndefined

  // The object behind a value whose kind says that it is a T.
  template <class T>
  T& As() const {
    return static_cast<T&>(*object_);
  }
  const std::shared_ptr<Object>& object() const { return object_; }
  int depth() const { return object_ ? object_->depth() : 0; }

 private:
  union Scalar {
    Int integer = 0;
    double real;
  };
  Value(Kind kind, Scalar scalar) : kind_(kind), scalar_(scalar) {}

  Kind kind_ = Kind::kNone;
  Scalar scalar_;
  std::shared_ptr<Object> object_;
};

// A string, or what using an undefined value says.
struct StringObject final : Object {
  StringObject(Meter* meter, std::string text_in, bool markup_in);
  const std::string text;  // UTF-8
  const size_t chars;      // code points
  const bool markup;       // marked safe: its operators escape what they join
};

struct SequenceObject final : Object {
  SequenceObject(Meter* meter, std::vector<Value> items_in);
  const std::vector<Value> items;
};

// The entries of a dict, in order of insertion, and how one is found.
struct DictEntries {
  using Entry = std::pair<Value, Value>;
  explicit DictEntries(std::vector<Entry> entries_in = {}) : entries(std::move(entries_in)) {}
  // Nothing if there is none. The second takes any key; it throws Failure for one that cannot be
  // hashed.
  std::optional<size_t> PlaceOf(std::string_view key) const;
  std::optional<size_t> PlaceOf(Runtime& runtime, const Value& key) const;
  // The value at PlaceOf, or null.
  template <class... Key>
  const Value* Find(Key&&... key) const {
    const std::optional<size_t> place = PlaceOf(std::forward<Key>(key)...);
    return place ? &entries[*place].second : nullptr;
  }

  std::vector<Entry> entries;  // no two equal keys

 private:
  // The places of the string keys among the first `indexed_` entries; made when one is looked for
  // among many.
  mutable std::map<std::string_view, size_t> by_text_;
  mutable size_t indexed_ = 0;
};

struct DictObject final : Object, DictEntries {
  // REQUIRES: no two equal keys
  DictObject(Meter* meter, std::vector<Entry> entries_in);
};

enum class ViewKind : uint8_t { kKeys, kValues, kItems };
struct ViewObject final : Object {
  ViewObject(Meter* meter, Value dict_in, ViewKind what_in)
      : Object(meter, 96, dict_in.depth() + 1), dict(std::move(dict_in)), what(what_in) {}
  const Value dict;
  const ViewKind what;
};

// The numbers from `start` on, `step` apart, up to but without `stop`.
struct Progression {
  // At most the largest int64: whoever makes a range limits its size.
  int64_t Size() const;
  int64_t start, stop, step;  // step: not 0
};

struct RangeObject final : Object, Progression {
  RangeObject(Meter* meter, const Progression& numbers)
      : Object(meter, 96, 1), Progression(numbers) {}
};

// The items of a list or a tuple, read once.
struct IteratorObject final : Object {
  IteratorObject(Meter* meter, Value items_in)
      : Object(meter, 128, items_in.depth() + 1), items(std::move(items_in)) {}
  // Nothing at the end.
  std::optional<Value> Next() {
    if (place == items.items().size()) return std::nullopt;
    return items.items()[place++];
  }
  const Value items;
  size_t place = 0;  // of the next item
};

struct NamespaceObject final : Object, DictEntries {
  explicit NamespaceObject(Meter* meter) : Object(meter, 128, 1) {}
  // Throws Failure for a name that begins with an underscore. REQUIRES: !Find(name)
  void Add(std::string_view name, Value value);
};

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

struct Builtin;
struct FunctionObject final : Object {
  FunctionObject(Meter* meter, const Builtin* builtin_in, Value self_in)
      : Object(meter, 96, self_in.depth() + 1), builtin(builtin_in), self(std::move(self_in)) {}
  const Builtin* const builtin;  // of static storage
  const Value self;              // None for a global function
};

// The name of the value's Python type: "int", "NoneType", "dict_items" ...
std::string TypeName(const Value& value);
bool Truthy(const Value& value);

}  // namespace sluice::text::jinja
