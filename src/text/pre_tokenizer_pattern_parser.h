// The syntax of a Pattern as a tree. Used while a tokenizer is made; not thread-safe.
#pragma once

#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

#include "sluice/status.h"
#include "text/unicode/characters.h"

namespace sluice::text {

struct PatternTree {
  enum class Kind {
    kEmpty,
    kSet,
    kSequence,
    kChoice,
    kRepeat,
    kAhead,
    kNotAhead,
    kLineStart,
    kLineEnd
  };
  static constexpr uint32_t kUnbounded = std::numeric_limits<uint32_t>::max();

  Kind kind = Kind::kEmpty;
  CodePointSet set;                   // kSet, kAhead, kNotAhead
  size_t set_number = 0;              // of the set among the different ones; the compiler fills it
  std::vector<PatternTree> children;  // kSequence, kChoice, kRepeat (one)
  uint32_t least = 1, most = 1;       // kRepeat
  bool possessive = false;            // kRepeat
};

// kBadModel naming what is not supported, and where.
Result<PatternTree> ParsePattern(std::string_view source);

}  // namespace sluice::text
