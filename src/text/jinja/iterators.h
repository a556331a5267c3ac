// The lazy sequences over built-in values. Belong to one rendering and its thread.
#pragma once

#include <cstddef>
#include <utility>

#include "text/jinja/runtime.h"
#include "text/jinja/value.h"

namespace sluice::text::jinja {

// Over a list or tuple, forwards or backwards.
class SequenceIterator final : public Iterator {
 public:
  SequenceIterator(Runtime& runtime, Value sequence, bool backwards = false)
      : Iterator(runtime.meter(), 96, sequence.depth() + 1),
        sequence_(std::move(sequence)),
        backwards_(backwards) {}
  bool Next(Runtime& runtime, Value* item) override;
  std::string_view type_name() const override {
    return backwards_ ? "list_reverseiterator" : "list_iterator";
  }

 private:
  const Value sequence_;
  const bool backwards_;
  size_t place_ = 0;
};

// A lazy sequence over the items of another; depth and size are counted.
class FilterIterator : public Iterator {
 public:
  FilterIterator(Runtime& runtime, Value source)
      : Iterator(runtime.meter(), 256, source.depth() + 1), source_(std::move(source)) {}

 protected:
  // The next item of the source.
  bool Pull(Runtime& runtime, Value* item);
  const Value& source() const { return source_; }

 private:
  const Value source_;
  std::shared_ptr<Iterator> iterator_;
};

}  // namespace sluice::text::jinja
