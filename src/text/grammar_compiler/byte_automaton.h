// A rule of a grammar as a table of bytes, where it is an automaton over bytes alone: those of
// patterns, and of what schemas are rewritten to them for. Not thread-safe.
#pragma once

#include <grammar_impl.h>

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace sluice::text {

class ByteAutomaton {
 public:
  using Row = std::array<int32_t, 256>;  // the state behind each byte; -1: none

  // Nothing where the rule refers to others or to tokens, or has so many states, or stands for so
  // many of the library's, that making it would take longer than the library does without it.
  static constexpr size_t kStatesMax = 4096, kMembersMax = 200'000;
  static std::optional<ByteAutomaton> Make(const xgrammar::CompactFSMWithStartEnd& rule);

  const Row& next(int32_t state) const { return states_[static_cast<size_t>(state)].next; }
  // For each state the first that no text of up to so many bytes as the index tells from it. Texts
  // that are longer, up to `bytes`, tell no more apart than the last index.
  std::vector<std::vector<int32_t>> FirstAlike(int32_t bytes) const;
  bool is_end(int32_t state) const { return states_[static_cast<size_t>(state)].is_end; }
  // The states of the library's automaton at which a byte may come, with what comes behind it.
  const std::vector<std::pair<int32_t, Row>>& beginnings() const { return beginnings_; }

 private:
  struct State {
    Row next;
    bool is_end;
  };

  explicit ByteAutomaton(const xgrammar::CompactFSMWithStartEnd& rule) : rule_(rule) {}
  bool Build();
  // Of all that the library's states lead to; their edges may share bytes.
  Row RowOf(std::span<const int32_t> of);
  int32_t StateOf(std::vector<int32_t> of);

  const xgrammar::CompactFSMWithStartEnd& rule_;
  std::vector<State> states_;
  std::vector<std::vector<int32_t>> sets_;  // of the library's states, which each state stands for
  std::map<std::vector<int32_t>, int32_t> by_set_;
  size_t members_ = 0;  // in all sets
  std::vector<std::pair<int32_t, Row>> beginnings_;
};

}  // namespace sluice::text
