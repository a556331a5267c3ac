// The variable `loop` of a for statement. Belongs to one rendering and its thread.
#pragma once

#include <functional>
#include <optional>
#include <string_view>

#include "text/jinja/runtime.h"
#include "text/jinja/value.h"

namespace sluice::text::jinja {

struct LoopObject final : Object {
  // `length` is that of the iterable, if it has one.
  LoopObject(Meter* meter, std::shared_ptr<IteratorObject> iterator_in,
             std::optional<int64_t> length_in);

  // Moves to the next item; false at the end.
  bool Advance(Runtime& runtime);
  // The attribute `name`; nothing if there is none of that name.
  std::optional<Value> Attribute(Runtime& runtime, std::string_view name);
  // Lets go of the items, which may hold this loop.
  void Release();
  int64_t Length(Runtime& runtime);

  // Whether the loop's `if` lets an item through; null: all.
  std::function<bool(const Value&)> passes;
  Value current;
  int64_t index0 = -1;

 private:
  // The next item, which comes no second time.
  std::optional<Value> Pull();
  // Whether there is an item after the current one.
  bool Peek();

  std::shared_ptr<IteratorObject> iterator_;
  std::optional<int64_t> length_;
  Value before_;
  std::optional<Value> after_;  // read ahead
};

}  // namespace sluice::text::jinja
