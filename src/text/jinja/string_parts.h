// Taking strings apart and replacing parts of them as Python's str does. For one rendering's
// thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/runtime.h"
#include "text/jinja/value.h"

namespace sluice::text::jinja {

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

}  // namespace sluice::text::jinja
