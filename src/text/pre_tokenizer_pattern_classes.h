// Which characters the sets of an expression tell apart. Used while a tokenizer is made; not
// thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "text/unicode/characters.h"

namespace sluice::text {

// Of different sets. Published expressions have about 30.
inline constexpr size_t kPatternSetsMax = 512;
inline constexpr size_t kPatternClassesMax = 64;

// Code points that the same sets hold are one class.
struct PatternClasses {
  using Span = std::pair<uint32_t, uint8_t>;
  std::vector<Span> spans;      // where each run of one class begins, ascending, and its class
  std::vector<uint64_t> masks;  // by set: the classes that it is made of, one bit each
  size_t steps = 0;             // code points at which a set begins or ends, and sets, looked at
};

// Nothing when there are more than kPatternClassesMax. REQUIRES: at most kPatternSetsMax sets
std::optional<PatternClasses> ClassesOf(const std::vector<CodePointSet>& sets);

}  // namespace sluice::text
