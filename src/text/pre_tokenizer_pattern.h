// Regular expressions of tokenizer.json files, as Oniguruma with Ruby syntax reads them, over the
// classes of text/unicode/characters.h. Supported: alternation, groups, (?i:...), classes with
// properties, negation and &&, the quantifiers ? * + {n,m} with possessive forms on single
// characters, optional groups, look-ahead on one character, ^ and $. A Pattern is immutable; any
// thread may use it with a PatternState of its own.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/status.h"
#include "text/unicode/characters.h"

namespace sluice::text {

// How the bytes of a text are read: as UTF-8, or each byte as its character of GPT-2's byte
// alphabet (the text after a ByteLevel step).
enum class TextUnit { kUtf8, kByte };

// What searches may cost: the nodes of expressions and characters of text looked at, and the
// alternatives set aside. Past that, nothing matches, and whoever searches reports Error().
class PatternBudget {
 public:
  // For all searches in a text of that many bytes, and in its parts.
  explicit PatternBudget(size_t text_bytes = 0);
  bool spent() const { return steps_left_ == 0; }
  // kInvalidArgument; `what` searched. REQUIRES: spent()
  Status Error(std::string_view what) const;
  // Spends all that is left and returns false when that is less than `steps`.
  bool Spend(size_t steps) {
    const bool enough = steps < steps_left_;
    steps_left_ = enough ? steps_left_ - steps : 0;
    return enough;
  }

 private:
  size_t steps_max_;
  size_t steps_left_;
};

// Working memory of one search over one text.
class PatternState {
 public:
  // Call before the first Find in a text. The budget must outlive the search.
  void Start(PatternBudget* budget);

 private:
  friend class Pattern;
  struct Frame {
    uint32_t node;
    uint32_t kind;    // 0: continue at node; 1: give back one character of a run before node
    size_t position;  // where to continue
    size_t least;     // of a run: the shortest end
  };
  std::vector<Frame> frames_;
  std::vector<size_t> dead_until_;  // by alternative: starts before this cannot match
  PatternBudget* budget_ = nullptr;
};

class Pattern {
 public:
  // kBadModel with the reason when `source` uses what is not supported.
  static Result<Pattern> Compile(std::string_view source);
  // Matches exactly one character of `set`.
  static Pattern OfSet(const CodePointSet& set);
  // kBadModel when `text` is not UTF-8 or has more than 60 different characters.
  static Result<Pattern> OfLiteral(std::string_view text);

  // The first match that begins at or after `from`; false when there is none. A match is never
  // empty (an expression that matches nothing is passed over). Work over one text is linear in its
  // length for the expressions of published tokenizers and cut off by the budget for any other.
  bool Find(std::string_view text, TextUnit unit, size_t from, PatternState* state, size_t* begin,
            size_t* end) const;

 private:
  friend class PatternCompiler;

  enum class NodeKind : uint8_t { kRun, kSplit, kAhead, kNotAhead, kLineStart, kLineEnd, kMatch };
  struct Node {
    NodeKind kind = NodeKind::kMatch;
    bool possessive = false;
    uint32_t next = 0;
    uint64_t mask = 0;                   // kRun, kAhead, kNotAhead: classes of characters
    uint32_t least = 1, most = 1;        // kRun
    std::vector<uint32_t> alternatives;  // kSplit, first tried first
  };
  struct Alternative {
    uint32_t node;
    uint64_t first;  // classes that a match can begin with
  };

  template <TextUnit unit>
  bool FindIn(std::string_view text, size_t from, PatternState* state, size_t* begin,
              size_t* end) const;
  template <TextUnit unit>
  bool MatchAt(uint32_t node, std::string_view text, size_t start, PatternState* state, size_t* end,
               size_t* first_run_end) const;
  template <TextUnit unit>
  uint64_t ClassAt(std::string_view text, size_t position, size_t* length) const;
  template <TextUnit unit>
  bool HoldsAt(const Node& node, std::string_view text, size_t position) const;
  // The characters from a position that a node takes.
  struct Run {
    size_t count = 0;
    size_t end = 0;        // of the longest run
    size_t least_end = 0;  // of the shortest, where count >= least
  };
  template <TextUnit unit>
  Run RunAt(const Node& node, std::string_view text, size_t position) const;

  std::vector<Node> nodes_;
  std::vector<Alternative> alternatives_;
  // Every code point belongs to one class; a class is one bit of a mask.
  std::array<uint8_t, 256> class_of_byte_{};  // of the characters of GPT-2's byte alphabet
  std::array<uint8_t, 128> class_of_ascii_{};
  std::vector<uint16_t> page_of_;     // code point >> 8 to page
  std::vector<uint8_t> class_of_;     // page << 8 | low byte
  std::vector<uint32_t> candidates_;  // by class: bits of alternatives_
};

}  // namespace sluice::text
