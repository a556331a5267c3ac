#include "text/jinja/builtins.h"
#include "text/jinja/failure.h"
#include "text/jinja/loop.h"
#include "text/jinja/operators.h"
#include "text/jinja/unicode.h"

namespace sluice::text::jinja {
namespace {

// Over a value that has all its items: whatever can be iterated but a generator.
class ValueIterator final : public Iterator {
 public:
  ValueIterator(Runtime& runtime, Value source)
      : Iterator(runtime.meter(), 128, source.depth() + 1), source_(std::move(source)) {}

  bool Next(Runtime& runtime, Value* item) override {
    switch (source_.kind()) {
      case Kind::kList:
      case Kind::kTuple:
        if (place_ >= source_.items().size()) return false;
        *item = source_.items()[place_++];
        break;
      case Kind::kString:
        if (place_ >= source_.text().size()) return false;
        NextCharacter(runtime, item);
        break;
      case Kind::kDict:
        if (place_ >= source_.dict().entries.size()) return false;
        *item = source_.dict().entries[place_++].first;
        break;
      case Kind::kView:
        return NextEntry(runtime, source_.As<ViewObject>(), item);
      case Kind::kRange:
        if (static_cast<int64_t>(place_) >= source_.As<RangeObject>().size) return false;
        *item = Value::Integer(source_.As<RangeObject>().At(static_cast<int64_t>(place_++)));
        break;
      default:
        return false;
    }
    runtime.Step();
    return true;
  }

 private:
  // The characters of a safe string are plain, as in Python.
  void NextCharacter(Runtime& runtime, Value* item) {
    const size_t bytes = Utf8LengthAt(source_.text(), place_);
    *item = runtime.String(source_.text().substr(place_, bytes));
    place_ += bytes;
  }

  bool NextEntry(Runtime& runtime, const ViewObject& view, Value* item) {
    if (place_ >= view.dict.dict().entries.size()) return false;
    runtime.Step();
    const auto& [key, value] = view.dict.dict().entries[place_++];
    if (view.what == ViewKind::kItems) {
      *item = runtime.Tuple({key, value});
    } else {
      *item = view.what == ViewKind::kKeys ? key : value;
    }
    return true;
  }

  const Value source_;
  size_t place_ = 0;  // in items, entries or bytes
};

}  // namespace

std::shared_ptr<Iterator> Iterate(Runtime& runtime, const Value& value) {
  if (value.Is(Kind::kIterator)) return std::static_pointer_cast<Iterator>(value.object());
  if (!IsIterable(value) || value.Is(Kind::kLoop)) {
    Fail("'", TypeName(value), "' object is not iterable");
  }
  return std::make_shared<ValueIterator>(runtime, value);
}

std::vector<Value> Collect(Runtime& runtime, const Value& value) {
  if (value.IsSequence()) {
    runtime.CheckCount(value.items().size());
    runtime.Step(value.items().size());
    return value.items();
  }
  std::vector<Value> out;
  std::shared_ptr<Iterator> iterator = Iterate(runtime, value);
  Value item;
  while (iterator->Next(runtime, &item)) {
    runtime.CheckCount(out.size() + 1);
    out.push_back(std::move(item));
  }
  return out;
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
      return static_cast<int64_t>(value.As<ViewObject>().dict.dict().entries.size());
    case Kind::kRange:
      return value.As<RangeObject>().size;
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

LoopObject::LoopObject(Meter* meter, std::shared_ptr<Iterator> iterator_in,
                       std::optional<int64_t> length_in)
    : Object(meter, 256, 2), iterator_(std::move(iterator_in)), length_(length_in) {}

bool LoopObject::Advance(Runtime& runtime) {
  if (!Peek(runtime)) return false;
  ++index0;
  before_ = std::move(current);
  current = std::move(*after_);
  after_.reset();
  return true;
}

bool LoopObject::Peek(Runtime& runtime) {
  if (after_) return true;
  Value next;
  if (iterator_ == nullptr || !iterator_->Next(runtime, &next)) return false;
  after_ = std::move(next);
  return true;
}

int64_t LoopObject::Length(Runtime& runtime) {
  if (!length_) {
    std::vector<Value> rest;
    Value item;
    while (iterator_ != nullptr && iterator_->Next(runtime, &item)) {
      runtime.CheckCount(rest.size() + 1);
      rest.push_back(std::move(item));
    }
    length_ = static_cast<int64_t>(rest.size()) + index0 + 1 + (after_ ? 1 : 0);
    iterator_ = Iterate(runtime, runtime.List(std::move(rest)));
  }
  return *length_;
}

std::optional<Value> LoopObject::Attribute(Runtime& runtime, std::string_view name) {
  if (name == "index") return Value::Integer(index0 + 1);
  if (name == "index0") return Value::Integer(index0);
  if (name == "first") return Value::Bool(index0 == 0);
  if (name == "last") return Value::Bool(!Peek(runtime));
  if (name == "length") return Value::Integer(Length(runtime));
  if (name == "revindex") return Value::Integer(Length(runtime) - index0);
  if (name == "revindex0") return Value::Integer(Length(runtime) - index0 - 1);
  if (name == "previtem") {
    return index0 == 0 ? runtime.Undefined("there is no previous item") : before_;
  }
  if (name == "nextitem") {
    return Peek(runtime) ? *after_ : runtime.Undefined("there is no next item");
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
  current = Value();
  before_ = Value();
  after_.reset();
}

}  // namespace sluice::text::jinja
