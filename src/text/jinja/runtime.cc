#include "text/jinja/runtime.h"

#include <chrono>

#include "text/jinja/failure.h"
#include "text/jinja/operators.h"

namespace sluice::text::jinja {
namespace {

// Far more than a conversation needs, far less than a server has.
constexpr size_t kLiveBytesMax = 256u << 20;

}  // namespace

Runtime::Runtime(const RenderLimits& limits, std::optional<Moment> now)
    : limits_(limits),
      now_(now),
      work_left_(static_cast<size_t>(limits.steps_max) * kBytesPerStep) {
  meter_.live_bytes_max = kLiveBytesMax;
}

Runtime::~Runtime() {
  for (const auto& object : namespaces_) {
    static_cast<NamespaceObject&>(*object).entries.clear();
  }
}

void Runtime::Exhausted() const {
  Fail("the template runs more than ", limits_.steps_max, " steps");
}

void Runtime::CheckCancelled() const {
  if (limits_.cancelled != nullptr && *limits_.cancelled) Fail("the rendering was given up");
}

void Runtime::CheckString(size_t bytes) const {
  if (bytes > limits_.output_bytes_max) {
    Fail("the template makes a string longer than ", limits_.output_bytes_max, " bytes");
  }
}

void Runtime::CheckCount(size_t count) const {
  if (count > (meter_.live_bytes_max - meter_.live_bytes) / sizeof(Value)) {
    Fail("the template makes a list of ", count, " values, which is too long");
  }
}

Value Runtime::String(std::string text, bool markup) {
  CheckString(text.size());
  Step();
  Work(text.size());
  return Make<StringObject>(Kind::kString, std::move(text), markup);
}

Value Runtime::Sequence(Kind kind, std::vector<Value> items) {
  Step(1 + items.size() / 16);
  return Make<SequenceObject>(kind, std::move(items));
}

Value Runtime::Dict(std::vector<DictObject::Entry> entries) {
  Step(1 + entries.size());
  for (const auto& [key, value] : entries) {
    // Keys are sorted when one is looked up.
    if (key.IsString()) Work(key.text().size() * 4);
  }
  return Make<DictObject>(Kind::kDict, std::move(entries));
}

Value Runtime::Namespace() {
  namespaces_.push_back(std::make_shared<NamespaceObject>(&meter_));
  return {Kind::kNamespace, namespaces_.back()};
}

Moment Runtime::now() const {
  if (now_) return *now_;
  Moment moment;
  const auto since_epoch = std::chrono::system_clock::now().time_since_epoch();
  const auto micros = std::chrono::duration_cast<std::chrono::microseconds>(since_epoch).count();
  const std::time_t seconds = static_cast<std::time_t>(micros / 1000000);
  moment.microseconds = static_cast<int>(micros % 1000000);
  localtime_r(&seconds, &moment.time);
  return moment;
}

TextBuilder::~TextBuilder() { runtime_.meter()->live_bytes -= counted_; }

void TextBuilder::Append(std::string_view part) {
  constexpr size_t kBytesOfACall = 8;
  runtime_.Work(part.size() + kBytesOfACall);
  runtime_.CheckString(text_.size() + part.size());
  text_.append(part);
  if (text_.capacity() > counted_) {
    runtime_.meter()->Take(text_.capacity() - counted_);
    counted_ = text_.capacity();
  }
}

void TextBuilder::Append(const Value& value) {
  if (value.IsString()) {
    Append(value.text());
  } else {
    Append(ToString(runtime_, value));
  }
}

void TextBuilder::AppendRepeated(std::string_view part, size_t count) {
  if (part.empty() || count == 0) return;
  if (count > runtime_.limits().output_bytes_max / part.size()) {
    runtime_.CheckString(runtime_.limits().output_bytes_max + 1);
  }
  runtime_.CheckString(text_.size() + part.size() * count);
  runtime_.Work(part.size() * count);
  runtime_.meter()->Take(part.size() * count);
  counted_ += part.size() * count;
  text_.reserve(text_.size() + part.size() * count);
  for (size_t i = 0; i < count; ++i) text_.append(part);
}

bool DictBuilder::Set(const Value& key, Value value) {
  runtime_.Step();
  if (const std::optional<size_t> place = dict_.PlaceOf(runtime_, key)) {
    dict_.entries[*place].second = std::move(value);
    return false;
  }
  runtime_.CheckCount(dict_.entries.size());
  dict_.entries.emplace_back(key, std::move(value));
  return true;
}

}  // namespace sluice::text::jinja
