// What one rendering may spend and the makers of its values: counts steps, live bytes and the size
// of every string against RenderLimits. One per rendering, used by its thread alone; it outlives
// every value that it makes.
#pragma once

#include <ctime>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/limits.h"
#include "text/jinja/value.h"

namespace sluice::text::jinja {

// A moment of local time.
struct Moment {
  std::tm time = {};
  int microseconds = 0;
};

class Runtime {
 public:
  Runtime(const RenderLimits& limits, std::optional<Moment> now);
  // Empties namespaces, so that those which hold each other are freed.
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  // Every loop and every recursion whose length the template or the conversation decides counts
  // here what it does.
  // Counts `count` steps; throws Failure over the limit.
  void Step(size_t count = 1) {
    if (count > work_left_ / kBytesPerStep) Exhausted();
    Spend(count * kBytesPerStep);
  }
  // Counts the work of touching `bytes` bytes, part of a step or many; throws Failure likewise.
  void Work(size_t bytes) {
    if (bytes > work_left_) Exhausted();
    Spend(bytes);
  }
  // Whole steps counted so far.
  int64_t steps() const {
    return limits_.steps_max - static_cast<int64_t>(work_left_ / kBytesPerStep);
  }
  // Throws Failure unless a string of `bytes` bytes may exist.
  void CheckString(size_t bytes) const;
  // Throws Failure unless a list of `count` values may exist.
  void CheckCount(size_t count) const;

  // A value of an object that the meter counts.
  template <class T, class... Parts>
  Value Make(Kind kind, Parts&&... parts) {
    return {kind, std::make_shared<T>(&meter_, std::forward<Parts>(parts)...)};
  }
  Value String(std::string text, bool markup = false);
  // REQUIRES: a list's or a tuple's kind
  Value Sequence(Kind kind, std::vector<Value> items);
  Value List(std::vector<Value> items) { return Sequence(Kind::kList, std::move(items)); }
  Value Tuple(std::vector<Value> items) { return Sequence(Kind::kTuple, std::move(items)); }
  // REQUIRES: no two equal keys
  Value Dict(std::vector<DictObject::Entry> entries);
  Value Undefined(std::string message) {
    return Make<StringObject>(Kind::kUndefined, std::move(message), false);
  }
  Value View(const Value& dict, ViewKind what) { return Make<ViewObject>(Kind::kView, dict, what); }
  Value Range(int64_t start, int64_t stop, int64_t step) {
    return Make<RangeObject>(Kind::kRange, Progression{start, stop, step});
  }
  Value Namespace();
  // A generator over `items`, which is read once.
  Value Generator(std::vector<Value> items) {
    return Make<IteratorObject>(Kind::kIterator, List(std::move(items)));
  }
  Value Function(const Builtin* builtin, Value self) {
    return Make<FunctionObject>(Kind::kFunction, builtin, std::move(self));
  }

  Meter* meter() { return &meter_; }
  const RenderLimits& limits() const { return limits_; }
  Moment now() const;

  // The line of the statement or expression at work, for messages.
  int line = 0;

 private:
  // A string operation touches so many bytes in about the time of one expression.
  static constexpr size_t kBytesPerStep = 256;

  // Looks at every 4096th step whether the rendering was given up.
  void Spend(size_t bytes) {
    constexpr size_t kBytesPerLook = 4096 * kBytesPerStep;
    const size_t before = work_left_;
    work_left_ -= bytes;
    if (before / kBytesPerLook != work_left_ / kBytesPerLook) CheckCancelled();
  }
  void CheckCancelled() const;
  [[noreturn]] void Exhausted() const;

  const RenderLimits limits_;
  const std::optional<Moment> now_;
  size_t work_left_;  // in bytes
  Meter meter_;
  // Namespaces are the values that can come to hold each other; kept here so that taking them apart
  // never recurses.
  std::vector<std::shared_ptr<Object>> namespaces_;
};

// Collects a string under the limits; what it holds counts as live.
class TextBuilder {
 public:
  explicit TextBuilder(Runtime& runtime) : runtime_(runtime) {}
  ~TextBuilder();
  TextBuilder(const TextBuilder&) = delete;
  TextBuilder& operator=(const TextBuilder&) = delete;

  void Append(std::string_view part);
  void Append(char part) { Append(std::string_view(&part, 1)); }
  // str(value).
  void Append(const Value& value);
  void AppendRepeated(std::string_view part, size_t count);
  const std::string& text() const { return text_; }
  std::string Take() { return std::move(text_); }
  Value Finish(bool markup = false) { return runtime_.String(std::move(text_), markup); }

 private:
  Runtime& runtime_;
  std::string text_;
  size_t counted_ = 0;
};

// Collects a dict; a key that comes again keeps its first place and takes the new value.
class DictBuilder {
 public:
  explicit DictBuilder(Runtime& runtime) : runtime_(runtime) {}
  // Whether the key is new; throws Failure for one that cannot be hashed.
  bool Set(const Value& key, Value value);
  Value Finish() { return runtime_.Dict(std::move(dict_.entries)); }

 private:
  Runtime& runtime_;
  DictEntries dict_;
};

}  // namespace sluice::text::jinja
