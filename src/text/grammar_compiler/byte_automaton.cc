#include "text/grammar_compiler/byte_automaton.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

namespace sluice::text {

std::optional<ByteAutomaton> ByteAutomaton::Make(const xgrammar::CompactFSMWithStartEnd& rule) {
  ByteAutomaton automaton(rule);
  if (!automaton.Build()) return std::nullopt;
  return automaton;
}

bool ByteAutomaton::Build() {
  std::unordered_set<int> reachable;
  rule_.GetReachableStates(&reachable);
  for (const int state : reachable) {
    for (const auto& edge : rule_.GetFsm().GetEdges(state)) {
      if (!edge.IsCharRange() && !edge.IsEpsilon()) return false;
    }
  }
  for (const int state : reachable) {
    if (!rule_.IsScanableState(state)) continue;
    const int32_t of[] = {state};
    beginnings_.emplace_back(state, RowOf(of));
  }
  // RowOf adds states behind those that there are.
  for (size_t i = 0; i < states_.size(); ++i) {
    if (states_.size() > kStatesMax || members_ > kMembersMax) return false;
    const std::vector<int32_t> of = sets_[i];
    const Row row = RowOf(of);
    states_[i].next = row;
  }
  return true;
}

ByteAutomaton::Row ByteAutomaton::RowOf(std::span<const int32_t> of) {
  std::vector<xgrammar::FSMEdge> edges;
  std::vector<int32_t> cuts = {0, 256};  // between these, all bytes lead to the same
  for (const int32_t state : of) {
    for (const auto& edge : rule_.GetFsm().GetEdges(state)) {
      if (!edge.IsCharRange()) continue;
      edges.push_back(edge);
      cuts.push_back(edge.min);
      cuts.push_back(edge.max + 1);
    }
  }
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  Row row;
  for (size_t i = 0; i + 1 < cuts.size(); ++i) {
    std::vector<int32_t> targets;
    for (const auto& edge : edges) {
      if (edge.min <= cuts[i] && cuts[i] <= edge.max) targets.push_back(edge.target);
    }
    const int32_t state = targets.empty() ? -1 : StateOf(std::move(targets));
    std::fill(row.begin() + cuts[i], row.begin() + cuts[i + 1], state);
  }
  return row;
}

int32_t ByteAutomaton::StateOf(std::vector<int32_t> of) {
  // With all that is reached without a byte.
  for (size_t i = 0; i < of.size(); ++i) {
    for (const auto& edge : rule_.GetFsm().GetEdges(of[i])) {
      if (edge.IsEpsilon() && std::find(of.begin(), of.end(), edge.target) == of.end()) {
        of.push_back(edge.target);
      }
    }
  }
  std::sort(of.begin(), of.end());
  of.erase(std::unique(of.begin(), of.end()), of.end());
  const auto [known, is_new] = by_set_.try_emplace(of, static_cast<int32_t>(states_.size()));
  if (!is_new) return known->second;
  const bool is_end =
      std::any_of(of.begin(), of.end(), [&](int32_t state) { return rule_.IsEndState(state); });
  states_.push_back({{}, is_end});
  members_ += of.size();
  sets_.push_back(std::move(of));
  return known->second;
}

std::vector<std::vector<int32_t>> ByteAutomaton::FirstAlike(int32_t bytes) const {
  std::vector<int> told_apart = {0};  // of bytes that lead to the same everywhere, the first
  for (int byte = 1; byte < 256; ++byte) {
    const bool same = std::all_of(states_.begin(), states_.end(), [&](const State& state) {
      return state.next[byte] == state.next[byte - 1];
    });
    if (!same) told_apart.push_back(byte);
  }
  // Those that are alike by one byte more, until more tells no more apart.
  std::vector<std::vector<int32_t>> alike;
  std::vector<int32_t> first(states_.size());
  for (size_t i = 0; i < states_.size(); ++i) {
    const auto same = std::find_if(states_.begin(), states_.end(), [&](const State& state) {
      return state.is_end == states_[i].is_end;
    });
    first[i] = static_cast<int32_t>(same - states_.begin());
  }
  alike.push_back(first);
  for (int32_t round = 0; round < bytes; ++round) {
    const std::vector<int32_t>& before = alike.back();
    const auto behind = [&](size_t state, int byte) {
      const int32_t next = states_[state].next[byte];
      return next < 0 ? -1 : before[next];
    };
    const auto same = [&](size_t a, size_t b) {
      return before[a] == before[b] &&
             std::all_of(told_apart.begin(), told_apart.end(),
                         [&](int byte) { return behind(a, byte) == behind(b, byte); });
    };
    std::unordered_multimap<uint64_t, size_t> firsts;
    for (size_t i = 0; i < states_.size(); ++i) {
      uint64_t hash = static_cast<uint64_t>(before[i]);
      for (const int byte : told_apart) {
        hash = (hash ^ static_cast<uint32_t>(behind(i, byte))) * 0x9E3779B97F4A7C15u;
      }
      const auto [begin, end] = firsts.equal_range(hash);
      const auto found =
          std::find_if(begin, end, [&](const auto& entry) { return same(entry.second, i); });
      first[i] = static_cast<int32_t>(found == end ? i : found->second);
      if (found == end) firsts.emplace(hash, i);
    }
    if (first == before) break;
    alike.push_back(first);
  }
  return alike;
}

}  // namespace sluice::text
