#include "text/jinja/value.h"

#include <algorithm>
#include <limits>

#include "base/utf8.h"
#include "text/jinja/failure.h"
#include "text/jinja/operators.h"
#include "text/jinja/runtime.h"

namespace sluice::text::jinja {
namespace {

// Deep enough for every schema (JSON is read 64 deep), shallow enough for recursive printing,
// comparing and destroying.
constexpr int kValueDepthMax = 128;

int DepthOf(const std::vector<Value>& items) {
  int depth = 0;
  for (const Value& item : items) depth = std::max(depth, item.depth());
  return depth;
}

int DepthOf(const std::vector<DictObject::Entry>& entries) {
  int depth = 0;
  for (const auto& [key, value] : entries) depth = std::max({depth, key.depth(), value.depth()});
  return depth;
}

}  // namespace

void Meter::Take(size_t bytes) {
  if (bytes > live_bytes_max - live_bytes) {
    Fail("the template holds more than ", live_bytes_max, " bytes of values");
  }
  live_bytes += bytes;
}

Object::Object(Meter* meter, size_t bytes, int depth) : meter_(meter), bytes_(0), depth_(depth) {
  if (depth > kValueDepthMax) {
    Fail("a value is nested deeper than ", kValueDepthMax, " levels");
  }
  Grow(bytes);
}

Object::~Object() {
  if (meter_ != nullptr) meter_->live_bytes -= bytes_;
}

void Object::Grow(size_t bytes) {
  if (meter_ == nullptr) return;
  meter_->Take(bytes);
  bytes_ += bytes;
}

Value Value::Constant(std::string text) {
  return {Kind::kString, std::make_shared<StringObject>(nullptr, std::move(text), false)};
}

double Value::AsDouble() const {
  return kind_ == Kind::kFloat ? scalar_.real : static_cast<double>(scalar_.integer);
}

const std::string& Value::text() const { return As<StringObject>().text; }
bool Value::markup() const { return IsString() && As<StringObject>().markup; }
size_t Value::chars() const { return As<StringObject>().chars; }
const std::vector<Value>& Value::items() const { return As<SequenceObject>().items; }
const DictObject& Value::dict() const { return As<DictObject>(); }
const std::string& Value::undefined_message() const { return As<StringObject>().text; }

StringObject::StringObject(Meter* meter, std::string text_in, bool markup_in)
    : Object(meter, 96 + text_in.capacity(), 1),
      text(std::move(text_in)),
      chars(CountUtf8(text)),
      markup(markup_in) {}

SequenceObject::SequenceObject(Meter* meter, std::vector<Value> items_in)
    : Object(meter, 96 + items_in.capacity() * sizeof(Value), DepthOf(items_in) + 1),
      items(std::move(items_in)) {}

DictObject::DictObject(Meter* meter, std::vector<Entry> entries_in)
    : Object(meter, 128 + entries_in.capacity() * (sizeof(Entry) + 64), DepthOf(entries_in) + 1),
      DictEntries(std::move(entries_in)) {}

std::optional<size_t> DictEntries::PlaceOf(std::string_view key) const {
  constexpr size_t kScanMax = 8;
  if (entries.size() <= kScanMax) {
    for (size_t place = 0; place < entries.size(); ++place) {
      const Value& name = entries[place].first;
      if (name.IsString() && name.text() == key) return place;
    }
    return std::nullopt;
  }
  for (; indexed_ < entries.size(); ++indexed_) {
    const Value& name = entries[indexed_].first;
    if (name.IsString()) by_text_.emplace(name.text(), indexed_);
  }
  const auto found = by_text_.find(key);
  return found == by_text_.end() ? std::nullopt : std::optional<size_t>(found->second);
}

std::optional<size_t> DictEntries::PlaceOf(Runtime& runtime, const Value& key) const {
  if (key.IsString()) {
    runtime.Step();
    runtime.Work(key.text().size() * 8);
    return PlaceOf(key.text());
  }
  CheckHashable(runtime, key);
  for (size_t place = 0; place < entries.size(); ++place) {
    runtime.Step();
    const Value& name = entries[place].first;
    if (!name.IsString() && Equal(runtime, name, key)) return place;
  }
  return std::nullopt;
}

int64_t Progression::Size() const {
  const Int span = step > 0 ? static_cast<Int>(stop) - start : static_cast<Int>(start) - stop;
  const Int stride = step > 0 ? static_cast<Int>(step) : -static_cast<Int>(step);
  const Int items = span > 0 ? (span + stride - 1) / stride : 0;
  return static_cast<int64_t>(std::min<Int>(items, std::numeric_limits<int64_t>::max()));
}

void NamespaceObject::Add(std::string_view name, Value value) {
  if (name.substr(0, 1) == "_") {
    Fail("a namespace cannot hold '", name, "', which starts with an underscore");
  }
  Grow(160 + name.size() + sizeof(Entry));  // with the name's object and its place in the index
  entries.emplace_back(Value::Constant(std::string(name)), std::move(value));
}

std::string TypeName(const Value& value) {
  // By Kind.
  static constexpr std::string_view kNames[] = {"Undefined", "NoneType",
                                                "bool",      "int",
                                                "float",     "str",
                                                "list",      "tuple",
                                                "dict",      "",
                                                "range",     "generator",
                                                "Namespace", "LoopContext",
                                                "Macro",     "builtin_function_or_method"};
  static constexpr std::string_view kViewNames[] = {"dict_keys", "dict_values", "dict_items"};
  if (value.markup()) return "Markup";
  const bool is_view = value.Is(Kind::kView);
  return std::string(is_view ? kViewNames[static_cast<int>(value.As<ViewObject>().what)]
                             : kNames[static_cast<int>(value.kind())]);
}

bool Truthy(const Value& value) {
  if (value.IsNone()) return false;
  if (value.Is(Kind::kFloat)) return value.real() != 0.0;
  if (value.IsIntegral()) return value.integer() != 0;
  return Length(value).value_or(1) != 0;
}

}  // namespace sluice::text::jinja
