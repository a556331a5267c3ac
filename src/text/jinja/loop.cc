#include "text/jinja/loop.h"

#include "text/jinja/failure.h"
#include "text/jinja/iterators.h"
#include "text/jinja/methods.h"
#include "text/jinja/operators.h"
#include "text/jinja/scope.h"

namespace sluice::text::jinja {
namespace {

Value Cycle(Runtime&, const Value& self, const Arguments& arguments) {
  if (!arguments.named.empty()) Fail("cycle() takes no keyword arguments");
  if (arguments.positional.empty()) Fail("cycle() has no items to cycle through");
  const int64_t count = static_cast<int64_t>(arguments.positional.size());
  return arguments.positional[static_cast<size_t>(self.As<LoopObject>().index0 % count)];
}

Value Changed(Runtime& runtime, const Value& self, const Arguments& arguments) {
  if (!arguments.named.empty()) Fail("changed() takes no keyword arguments");
  LoopObject& loop = self.As<LoopObject>();
  bool same = loop.last_changed && loop.last_changed->size() == arguments.positional.size();
  for (size_t i = 0; same && i < arguments.positional.size(); ++i) {
    same = Equal(runtime, (*loop.last_changed)[i], arguments.positional[i]);
  }
  if (same) return Value::Bool(false);
  loop.last_changed = arguments.positional;
  return Value::Bool(true);
}

constexpr Method kMethods[] = {{"changed", Changed}, {"cycle", Cycle}};

}  // namespace

std::span<const Method> LoopMethods() { return kMethods; }

const Method* FindLoopMethod(std::string_view name) {
  for (const Method& method : kMethods) {
    if (method.name == name) return &method;
  }
  return nullptr;
}

LoopObject::LoopObject(Meter* meter, std::shared_ptr<Iterator> iterator_in,
                       std::optional<int64_t> length_in, int depth0_in)
    : Object(meter, 256, 2),
      depth0(depth0_in),
      iterator_(std::move(iterator_in)),
      length_(length_in) {}

bool LoopObject::Advance(Runtime& runtime) {
  Value next;
  if (after_) {
    next = std::move(*after_);
    after_.reset();
  } else if (iterator_ == nullptr || !iterator_->Next(runtime, &next)) {
    return false;
  }
  ++index0;
  before_ = std::move(current);
  current = std::move(next);
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
    iterator_ = std::make_shared<SequenceIterator>(runtime, runtime.List(std::move(rest)));
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
  if (name == "depth") return Value::Integer(depth0 + 1);
  if (name == "depth0") return Value::Integer(depth0);
  if (name == "previtem") {
    return index0 == 0 ? runtime.Undefined("there is no previous item") : before_;
  }
  if (name == "nextitem") {
    return Peek(runtime) ? *after_ : runtime.Undefined("there is no next item");
  }
  return std::nullopt;
}

void LoopObject::Release() {
  iterator_.reset();
  scope.reset();
  current = Value();
  before_ = Value();
  after_.reset();
  last_changed.reset();
}

}  // namespace sluice::text::jinja
