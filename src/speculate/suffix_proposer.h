// SuffixProposer: drafts what followed the last tokens most often, in the sequence's own text and
// in those of ended sequences of the same API key. The method is SuffixDecoding's (Oliaro and
// others, arXiv 2411.04975): the longest ends of the text that were seen before are looked up, each
// is followed by the most frequent token, again and again, while the product of their shares is not
// too small and for no more than four times the end's tokens, and of these drafts the one counts
// whose shares add up to most.
//
// The sequence's own text and those that ended stand in automata of their own, so that what it said
// itself is not outvoted. Those of ended sequences have parts of one size. A key gets a new part
// when its newest is full; when it has its share, or none is left, the part goes whose drafts were
// used longest ago.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "speculate/proposer.h"
#include "speculate/suffix_automaton.h"

namespace sluice::speculate {

class SuffixProposer final : public Proposer {
 public:
  struct Memory {
    size_t own_bytes = size_t{128} << 20;  // of the texts of all running sequences
    size_t part_bytes = size_t{16} << 20;
    int32_t parts = 8;         // of all keys
    int32_t parts_of_key = 4;  // at most
  };
  // Tokens that a call takes in, so that others don't wait for long: of a prompt, about 1 ms; of a
  // text that ended, 0.1 ms.
  static constexpr int32_t kTokensOfCall = 4096, kTokensOfEnd = 256;

  // REQUIRES: both limits are positive.
  explicit SuffixProposer(const ProposerLimits& limits);
  SuffixProposer(const ProposerLimits& limits, const Memory& memory);

  void Start(int32_t slot, const Opening& opening) override;
  Draft Propose(int32_t slot, std::span<const int32_t> tokens, std::span<int32_t> drafts) override;
  int32_t ProposeAside(int32_t slot, std::span<Aside> asides) override;
  bool End(int32_t slot, std::span<const int32_t> tokens) override;

  // Parts that hold something, of `key`.
  int32_t PartsOf(uint64_t key) const;

 private:
  static constexpr int32_t kShortest = 2;   // end of a text that drafts follow
  static constexpr size_t kPerMatched = 4;  // drafts for a token of it, at most; the paper\'s alpha
  static constexpr int32_t kLookBack = 32;  // tokens of which a part's match begins
  static constexpr double kLeastShare = 0.1;  // the paper's
  static constexpr int32_t kAsideLength = 3;  // tokens in a row that may come instead of a draft
  static constexpr double kLeastAside = 0.1;  // share of what followed
  static constexpr int32_t kPrefetched = 16;  // tokens of a call; of a prompt it would be too many

  struct Part {
    std::unique_ptr<SuffixAutomaton> texts;
    uint64_t key = 0;
    uint32_t life = 0;  // how often it was cleared; 0: it holds nothing
    uint64_t made = 0, used = 0;
  };
  // Where the end of a running text stands in a part.
  struct Cursor {
    uint32_t life = 0;  // of the part
    int32_t seen = 0;   // tokens
    SuffixAutomaton::Match match;
  };
  struct Slot {
    std::unique_ptr<SuffixAutomaton> own;
    Opening opening;
    int32_t begin = 0, seen = 0;  // tokens that `own` knows
    SuffixAutomaton::State text = SuffixAutomaton::kRoot;
    std::vector<Cursor> cursors;  // by part
    // What the last drafts came from; null: there were none.
    const SuffixAutomaton* source = nullptr;
    SuffixAutomaton::Match match;
    int32_t ends = 0, count = 0;
    // Of End.
    int32_t learned = 0;
    int32_t part = -1;
    uint32_t part_life = 0;
    SuffixAutomaton::State part_text = SuffixAutomaton::kRoot;
  };
  struct Best;

  void Prefetch(const Slot& slot, std::span<const int32_t> tokens) const;
  void TakeIn(Slot* slot, std::span<const int32_t> tokens);
  void Follow(const SuffixAutomaton& texts, SuffixAutomaton::Match match, int32_t ends,
              std::span<int32_t> drafts, Best* best) const;
  // The part that texts of the key are added to; a new one if `full`.
  int32_t PartFor(uint64_t key, bool full);

  const Memory memory_;
  std::vector<Slot> slots_;
  std::vector<Part> parts_;
  uint64_t clock_ = 0;  // of what parts were used for
};

}  // namespace sluice::speculate
