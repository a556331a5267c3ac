// Masks of rules that are automata over bytes. The library finds them by following each token byte
// by byte with the parser of all rules, which takes 3 ms for each state of a rule over a vocabulary
// of 128,000 tokens. Here a tree of the tokens is walked with a table, and what several states have
// in common is walked once. Not thread-safe.
#pragma once

#include <compiled_grammar_impl.h>

#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "text/grammar_compiler/byte_automaton.h"
#include "text/grammar_compiler/token_tree.h"

namespace sluice::text {

// What the library knows of the text behind a rule.
struct TextBehind {
  std::string bytes;    // it begins with these; empty: nothing is known
  bool always = false;  // it stands behind the rule wherever that is used
};

class AutomatonMasks {
 public:
  using Mask = xgrammar::AdaptiveTokenMask;

  explicit AutomatonMasks(const xgrammar::TokenizerInfo& vocabulary);

  // Gives `add` the mask of each state of the rule at which a byte may come. Tokens that the rule
  // does not hold to their end, and that `behind` does not rule out, are uncertain in it.
  void Make(const ByteAutomaton& rule, const TextBehind& behind,
            const std::function<void(int32_t state, Mask)>& add);

 private:
  // Tokens that begin with some bytes, behind which the automaton is in some state.
  struct Part {
    std::vector<std::pair<int32_t, int32_t>> accepted;  // runs of tokens
    std::vector<int32_t> uncertain;
  };
  // How far a walk has come.
  struct Place {
    int32_t state;   // -1: the rule has no such text
    uint64_t begun;  // bit k: the rule may have ended k bytes of `behind` before
    bool behind;     // all of `behind` came behind an end of the rule
  };

  // `node`: of the tree, behind the bytes of which the state is any that its tokens do not tell
  // from `state`. No part of the rule has ended before.
  const Part& PartOf(int32_t node, int32_t state);
  bool IsShared(int32_t node, const Place& place) const;
  Place Go(Place from, uint8_t byte, int32_t state) const;
  Mask MaskOf(const ByteAutomaton::Row& row);

  const xgrammar::TokenizerInfo vocabulary_;
  const TokenTree tree_;
  xgrammar::DynamicBitset all_;  // tokens that have bytes

  // Of the rule that masks are made for.
  const ByteAutomaton* rule_ = nullptr;
  std::vector<std::vector<int32_t>> alike_;  // ByteAutomaton::FirstAlike, for the longest token
  const TextBehind* behind_ = nullptr;
  std::unordered_map<int64_t, Part> parts_;  // by the tree's node and the state behind it
  size_t kept_ = 0;                          // numbers in them
  std::vector<Place> places_;                // by depth
};

}  // namespace sluice::text
