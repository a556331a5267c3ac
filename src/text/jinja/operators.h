// Python's operators on values: comparing, arithmetic, membership, subscripts, slices, iteration,
// taking strings apart, str() and repr(). They throw Failure where Python raises. For one
// rendering's thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/runtime.h"
#include "text/jinja/value.h"

namespace sluice::text::jinja {

// The operators between two operands; those that bind alike stand together.
enum class Op : uint8_t {
  kOr,
  kAnd,
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kIn,
  kNotIn,
  kAdd,
  kSubtract,
  kConcat,
  kMultiply,
  kDivide,
  kFloorDivide,
  kModulo
};
// As templates write it: "+", "not in".
std::string_view SymbolOf(Op op);

// ---- operators.cc
// Throws Failure with the message of an undefined value.
void CheckDefined(const Value& value);
// REQUIRES: a comparison
bool Compare(Runtime& runtime, Op op, const Value& a, const Value& b);
bool Equal(Runtime& runtime, const Value& a, const Value& b);
// a < b, a <= b, a > b or a >= b; throws Failure for types that have no order.
bool Ordered(Runtime& runtime, Op op, const Value& a, const Value& b);
inline bool Less(Runtime& runtime, const Value& a, const Value& b) {
  return Ordered(runtime, Op::kLess, a, b);
}
bool Contains(Runtime& runtime, const Value& container, const Value& item);
// False for a list, a dict, and a tuple that holds one.
bool IsHashable(Runtime& runtime, const Value& value);
// Throws Failure unless IsHashable.
void CheckHashable(Runtime& runtime, const Value& value);
// REQUIRES: an operator of arithmetic
Value Binary(Runtime& runtime, Op op, const Value& a, const Value& b);
Value Negate(const Value& value);
// The value of an int or a bool, cut to int64; throws Failure "'str' object cannot be interpreted
// as an integer".
int64_t Index(const Value& value);

// ---- subscript.cc
// obj.name as Python's getattr: methods and properties, undefined for what the sandbox hides,
// nothing if there is no such attribute.
std::optional<Value> FindAttribute(Runtime& runtime, const Value& object, std::string_view name);
// obj[key] as Python has it; nothing for a wrong key or type.
std::optional<Value> FindItem(Runtime& runtime, const Value& object, const Value& key);
// Jinja's x.name and x[key], which fall back on each other and give undefined in the end.
Value GetAttribute(Runtime& runtime, const Value& object, std::string_view name);
Value GetItem(Runtime& runtime, const Value& object, const Value& key);
// x[start:stop:step]; an absent bound is None.
Value Slice(Runtime& runtime, const Value& object, const Value& start, const Value& stop,
            const Value& step);

// ---- iterate.cc
std::shared_ptr<IteratorObject> Iterate(Runtime& runtime, const Value& value);
std::vector<Value> Collect(Runtime& runtime, const Value& value);
bool IsIterable(const Value& value);
// What iterating gives at a place. REQUIRES: a list, tuple, dict, view or range that long
Value ItemAt(Runtime& runtime, const Value& value, size_t place);
// len(); nothing for values that have none.
std::optional<int64_t> Length(const Value& value);
// len(); throws Failure for values that have none.
int64_t LengthOf(const Value& value);

// ---- string_parts.cc
// How many bytes are copied in the time in which one is searched, for Runtime::Work.
inline constexpr size_t kSearchWork = 8;
// The first place of `wanted` in `text` from `start` on, or npos, in linear time whatever
// the strings are.
size_t FindIn(std::string_view text, std::string_view wanted, size_t start = 0);

// The parts point into `text`, and each counts as a step. A negative `limit` of splits is none.
std::vector<std::string_view> SplitSpace(Runtime& runtime, std::string_view text, int64_t limit);
// REQUIRES: !separator.empty()
std::vector<std::string_view> SplitText(Runtime& runtime, std::string_view text,
                                        std::string_view separator, int64_t limit);
std::vector<std::string_view> SplitTextFromRight(Runtime& runtime, std::string_view text,
                                                 std::string_view separator, int64_t limit);
std::vector<std::string_view> SplitLines(Runtime& runtime, std::string_view text, bool keep_ends);
Value PartsToList(Runtime& runtime, const std::vector<std::string_view>& parts, bool markup);

// The first `limit` occurrences of `old` replaced; all for a negative limit.
std::string ReplaceText(Runtime& runtime, std::string_view text, std::string_view old,
                        std::string_view with, int64_t limit);
// strip(chars) on one or both ends; `chars` is a string or None for spaces.
Value StripValue(Runtime& runtime, const Value& text, const Value& chars, bool left, bool right);

// ---- print.cc
// str() and repr().
std::string ToString(Runtime& runtime, const Value& value);
std::string Repr(Runtime& runtime, const Value& value);
// What `indent` arguments mean: a string, or so many spaces.
std::string ReadIndent(Runtime& runtime, const Value& indent);
// str() as a value; a string (also a safe one) is returned as it is.
Value SoftString(Runtime& runtime, const Value& value);
// markupsafe.escape: the characters & < > ' " as HTML entities; safe strings stay.
Value Escape(Runtime& runtime, const Value& value);

}  // namespace sluice::text::jinja
