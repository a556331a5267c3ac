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
      : Iterator(runtime.meter(), 128, source.depth() + 1),
        source_(std::move(source)),
        end_(source_.IsString() ? source_.text().size() : static_cast<size_t>(LengthOf(source_))) {}

  bool Next(Runtime& runtime, Value* item) override {
    if (place_ >= end_) return false;
    runtime.Step();
    if (source_.IsString()) {
      // The characters of a safe string are plain, as in Python.
      const size_t bytes = Utf8LengthAt(source_.text(), place_);
      *item = runtime.String(source_.text().substr(place_, bytes));
      place_ += bytes;
    } else {
      *item = ItemAt(runtime, source_, place_++);
    }
    return true;
  }

 private:
  const Value source_;
  const size_t end_;
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
    if (iterator_ != nullptr) rest = Collect(runtime, {Kind::kIterator, iterator_});
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
