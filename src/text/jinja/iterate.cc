#include "base/utf8.h"
#include "text/jinja/builtins.h"
#include "text/jinja/failure.h"
#include "text/jinja/loop.h"
#include "text/jinja/operators.h"

namespace sluice::text::jinja {

std::shared_ptr<IteratorObject> Iterate(Runtime& runtime, const Value& value) {
  if (value.Is(Kind::kIterator)) return std::static_pointer_cast<IteratorObject>(value.object());
  const Value items = value.IsSequence() ? value : runtime.List(Collect(runtime, value));
  return std::make_shared<IteratorObject>(runtime.meter(), items);
}

std::vector<Value> Collect(Runtime& runtime, const Value& value) {
  if (!IsIterable(value) || value.Is(Kind::kLoop)) {
    Fail("'", TypeName(value), "' object is not iterable");
  }
  std::vector<Value> out;
  if (value.Is(Kind::kIterator)) {
    auto& iterator = value.As<IteratorObject>();
    while (std::optional<Value> item = iterator.Next()) out.push_back(std::move(*item));
    runtime.Step(out.size());
    return out;
  }
  const auto size = static_cast<size_t>(*Length(value));
  runtime.CheckCount(size);
  runtime.Step(size);
  if (value.IsSequence()) return value.items();
  out.reserve(size);
  if (!value.IsString()) {
    for (size_t place = 0; place < size; ++place) out.push_back(ItemAt(runtime, value, place));
    return out;
  }
  // The characters of a safe string are plain, as in Python.
  for (size_t place = 0; place < value.text().size();) {
    const size_t bytes = Utf8LengthAt(value.text(), place);
    out.push_back(runtime.String(value.text().substr(place, bytes)));
    place += bytes;
  }
  return out;
}

Value ItemAt(Runtime& runtime, const Value& value, size_t place) {
  if (value.IsSequence()) return value.items()[place];
  if (value.Is(Kind::kDict)) return value.dict().entries[place].first;
  if (value.Is(Kind::kRange)) {
    const RangeObject& range = value.As<RangeObject>();
    return Value::Integer(range.start + static_cast<int64_t>(place) * range.step);
  }
  const ViewObject& view = value.As<ViewObject>();
  const auto& [key, mapped] = view.dict.dict().entries[place];
  if (view.what == ViewKind::kItems) return runtime.Tuple({key, mapped});
  return view.what == ViewKind::kKeys ? key : mapped;
}

bool IsIterable(const Value& value) {
  return Length(value).has_value() || value.Is(Kind::kIterator) || value.Is(Kind::kLoop);
}

std::optional<int64_t> Length(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return 0;
    case Kind::kString:
      return static_cast<int64_t>(value.chars());
    case Kind::kList:
    case Kind::kTuple:
      return static_cast<int64_t>(value.items().size());
    case Kind::kDict:
      return static_cast<int64_t>(value.dict().entries.size());
    case Kind::kView:
      return Length(value.As<ViewObject>().dict);
    case Kind::kRange:
      return value.As<RangeObject>().Size();
    default:
      return std::nullopt;
  }
}

int64_t LengthOf(const Value& value) {
  const std::optional<int64_t> length = Length(value);
  if (!length) Fail("object of type '", TypeName(value), "' has no len()");
  return *length;
}

// ---- The variable `loop`

LoopObject::LoopObject(Meter* meter, std::shared_ptr<IteratorObject> iterator_in,
                       std::optional<int64_t> length_in)
    : Object(meter, 256, 2), iterator_(std::move(iterator_in)), length_(length_in) {}

bool LoopObject::Advance(Runtime& runtime) {
  if (!Peek()) return false;
  runtime.Step();
  ++index0;
  before_ = std::move(current);
  current = std::move(*after_);
  after_.reset();
  return true;
}

std::optional<Value> LoopObject::Pull() {
  while (iterator_ != nullptr) {
    std::optional<Value> item = iterator_->Next();
    if (!item || !passes || passes(*item)) return item;
  }
  return std::nullopt;
}

bool LoopObject::Peek() {
  if (!after_) after_ = Pull();
  return after_.has_value();
}

int64_t LoopObject::Length(Runtime& runtime) {
  if (!length_) {
    std::vector<Value> rest;
    while (std::optional<Value> item = Pull()) rest.push_back(std::move(*item));
    length_ = static_cast<int64_t>(rest.size()) + index0 + 1 + (after_ ? 1 : 0);
    iterator_ = std::make_shared<IteratorObject>(runtime.meter(), runtime.List(std::move(rest)));
    passes = nullptr;
  }
  return *length_;
}

std::optional<Value> LoopObject::Attribute(Runtime& runtime, std::string_view name) {
  if (name == "index") return Value::Integer(index0 + 1);
  if (name == "index0") return Value::Integer(index0);
  if (name == "first") return Value::Bool(index0 == 0);
  if (name == "last") return Value::Bool(!Peek());
  if (name == "length") return Value::Integer(Length(runtime));
  if (name == "revindex") return Value::Integer(Length(runtime) - index0);
  if (name == "revindex0") return Value::Integer(Length(runtime) - index0 - 1);
  if (name == "previtem") {
    return index0 == 0 ? runtime.Undefined("there is no previous item") : before_;
  }
  if (name == "nextitem") {
    return Peek() ? *after_ : runtime.Undefined("there is no next item");
  }
  if (name == "cycle" || name == "changed" || name == "depth" || name == "depth0") {
    Fail(NotSupported(
        "loop variable", name,
        "index, index0, first, last, length, revindex, revindex0, previtem, nextitem"));
  }
  return std::nullopt;
}

void LoopObject::Release() {
  iterator_.reset();
  passes = nullptr;
  current = Value();
  before_ = Value();
  after_.reset();
}

}  // namespace sluice::text::jinja
