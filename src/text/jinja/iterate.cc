#include "text/jinja/failure.h"
#include "text/jinja/iterators.h"
#include "text/jinja/loop.h"
#include "text/jinja/operators.h"
#include "text/jinja/unicode.h"

namespace sluice::text::jinja {
namespace {

// The characters of a string; those of a safe string are plain, as in Python.
class TextIterator final : public Iterator {
 public:
  TextIterator(Runtime& runtime, Value text)
      : Iterator(runtime.meter(), 96, 2), text_(std::move(text)) {}
  bool Next(Runtime& runtime, Value* item) override {
    if (place_ >= text_.text().size()) return false;
    runtime.Step();
    const size_t bytes = Utf8LengthAt(text_.text(), place_);
    *item = runtime.String(text_.text().substr(place_, bytes));
    place_ += bytes;
    return true;
  }

 private:
  const Value text_;
  size_t place_ = 0;
};

class DictIterator final : public Iterator {
 public:
  DictIterator(Runtime& runtime, Value dict, ViewKind what)
      : Iterator(runtime.meter(), 96, dict.depth() + 1), dict_(std::move(dict)), what_(what) {}
  bool Next(Runtime& runtime, Value* item) override {
    if (place_ >= dict_.dict().entries.size()) return false;
    runtime.Step();
    const auto& [key, value] = dict_.dict().entries[place_++];
    if (what_ == ViewKind::kItems) {
      *item = runtime.Tuple({key, value});
    } else {
      *item = what_ == ViewKind::kKeys ? key : value;
    }
    return true;
  }

 private:
  const Value dict_;
  const ViewKind what_;
  size_t place_ = 0;
};

class RangeIterator final : public Iterator {
 public:
  RangeIterator(Runtime& runtime, Value range)
      : Iterator(runtime.meter(), 96, 2), range_(std::move(range)) {}
  bool Next(Runtime& runtime, Value* item) override {
    const RangeObject& range = range_.As<RangeObject>();
    if (place_ >= range.size) return false;
    runtime.Step();
    *item = Value::Integer(range.At(place_++));
    return true;
  }

 private:
  const Value range_;
  int64_t place_ = 0;
};

}  // namespace

bool SequenceIterator::Next(Runtime& runtime, Value* item) {
  const std::vector<Value>& items = sequence_.items();
  if (place_ >= items.size()) return false;
  runtime.Step();
  *item = backwards_ ? items[items.size() - 1 - place_] : items[place_];
  ++place_;
  return true;
}

bool FilterIterator::Pull(Runtime& runtime, Value* item) {
  runtime.Step();
  if (iterator_ == nullptr) iterator_ = Iterate(runtime, source_);
  return iterator_->Next(runtime, item);
}

std::shared_ptr<Iterator> Iterate(Runtime& runtime, const Value& value) {
  switch (value.kind()) {
    case Kind::kList:
    case Kind::kTuple:
      return std::make_shared<SequenceIterator>(runtime, value);
    case Kind::kString:
      return std::make_shared<TextIterator>(runtime, value);
    case Kind::kDict:
      return std::make_shared<DictIterator>(runtime, value, ViewKind::kKeys);
    case Kind::kView:
      return std::make_shared<DictIterator>(runtime, value.As<ViewObject>().dict,
                                            value.As<ViewObject>().what);
    case Kind::kRange:
      return std::make_shared<RangeIterator>(runtime, value);
    case Kind::kIterator:
      return std::static_pointer_cast<Iterator>(value.object());
    case Kind::kUndefined:
      return std::make_shared<SequenceIterator>(runtime, runtime.List({}));
    default:
      Fail("'", TypeName(value), "' object is not iterable");
  }
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
  switch (value.kind()) {
    case Kind::kUndefined:
    case Kind::kString:
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kDict:
    case Kind::kView:
    case Kind::kRange:
    case Kind::kIterator:
    case Kind::kLoop:
      return true;
    default:
      return false;
  }
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

}  // namespace sluice::text::jinja
