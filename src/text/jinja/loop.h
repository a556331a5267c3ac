// The variable `loop` of a for statement. Belongs to one rendering and its thread.
#pragma once

#include <optional>
#include <string_view>

#include "text/jinja/runtime.h"
#include "text/jinja/value.h"

namespace sluice::text::jinja {

struct LoopObject final : Object {
  // `length` is that of the iterable, if it has one.
  LoopObject(Meter* meter, std::shared_ptr<Iterator> iterator_in, std::optional<int64_t> length_in);

  // Moves to the next item; false at the end.
  bool Advance(Runtime& runtime);
  // The attribute `name`; nothing if there is none of that name.
  std::optional<Value> Attribute(Runtime& runtime, std::string_view name);
  // Lets go of the items, which may hold this loop.
  void Release();
  int64_t Length(Runtime& runtime);

  Value current;
  int64_t index0 = -1;

 private:
  bool Peek(Runtime& runtime);

  std::shared_ptr<Iterator> iterator_;
  std::optional<int64_t> length_;
  Value before_;
  std::optional<Value> after_;  // read ahead
};

}  // namespace sluice::text::jinja
