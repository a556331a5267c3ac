#include "speculate/suffix_automaton.h"

#include <algorithm>

#include "base/check.h"

namespace sluice::speculate {

int32_t SuffixAutomaton::NodesFor(int32_t tokens) {
  return 2 + static_cast<int32_t>(kNodesPerToken * tokens);
}

size_t SuffixAutomaton::PlacesFor(int32_t tokens) {
  return 8 + static_cast<size_t>(kPlacesPerToken * tokens);
}

SuffixAutomaton::SuffixAutomaton(int32_t tokens)
    : tokens_max_(tokens),
      states_(std::make_unique_for_overwrite<Node[]>(NodesFor(tokens))),
      edges_(std::make_unique_for_overwrite<Edge[]>(PlacesFor(tokens))) {
  CHECK(tokens > 0, "tokens=", tokens);
}

void SuffixAutomaton::Clear(int32_t tokens) {
  tokens = std::min(tokens, tokens_max_);
  node_max_ = NodesFor(tokens);
  places_ = PlacesFor(tokens);
  edge_max_ = static_cast<int32_t>(kTaken * static_cast<double>(places_));
  std::for_each_n(edges_.get(), places_, [](Edge& edge) { edge.from = -1; });
  node_count_ = edge_count_ = 0;
  Add(0, -1);
}

size_t SuffixAutomaton::PlaceOf(State from, int32_t token) const {
  const uint64_t key =
      static_cast<uint64_t>(static_cast<uint32_t>(from)) << 32 | static_cast<uint32_t>(token);
  const uint64_t hash = HashWord(key, seed_);
  return static_cast<size_t>((hash & 0xFFFFFFFF) * places_ >> 32);
}

SuffixAutomaton::Edge* SuffixAutomaton::Find(State from, int32_t token) const {
  for (size_t place = PlaceOf(from, token);; place = place + 1 == places_ ? 0 : place + 1) {
    Edge& edge = edges_[place];
    if (edge.from < 0) return nullptr;
    if (edge.from == from && edge.token == token) return &edge;
  }
}

SuffixAutomaton::State SuffixAutomaton::Step(State from, int32_t token) const {
  const Node& node = states_[from];
  if (node.edges == kNoEdge) return -1;
  if (node.best >= 0 && node.best_token == token) return node.best;
  if (node.edges == kOneEdge) return -1;
  const Edge* const edge = Find(from, token);
  return edge == nullptr ? -1 : edge->to;
}

void SuffixAutomaton::AddEdge(State from, int32_t token, State to) {
  Node& node = states_[from];
  if (node.edges == kNoEdge) {
    node.edges = kOneEdge;
    node.best = to;
    node.best_token = token;
    return;
  }
  if (node.edges == kOneEdge) {
    node.edges = kNoEdge;
    Put(from, node.best_token, node.best);
  }
  Put(from, token, to);
}

void SuffixAutomaton::Put(State from, int32_t token, State to) {
  size_t place = PlaceOf(from, token);
  while (edges_[place].from >= 0) place = place + 1 == places_ ? 0 : place + 1;
  edges_[place] = {.from = from, .token = token, .to = to, .next = states_[from].edges};
  states_[from].edges = static_cast<int32_t>(place);
  ++edge_count_;
}

int32_t SuffixAutomaton::PlacesForEdge(State state) const {
  const int32_t edges = states_[state].edges;
  return edges == kNoEdge ? 0 : edges == kOneEdge ? 2 : 1;
}

int32_t SuffixAutomaton::PlacesForCopy(State state) const {
  int32_t count = 0;
  for (int32_t at = states_[state].edges; at >= 0; at = edges_[at].next) ++count;
  return count;
}

SuffixAutomaton::State SuffixAutomaton::Add(int32_t length, State link) {
  states_[node_count_] = {
      .length = length, .link = link, .count = 0, .edges = kNoEdge, .best = -1, .best_token = -1};
  return node_count_++;
}

SuffixAutomaton::State SuffixAutomaton::Split(State from, int32_t token, State to) {
  const State made = Add(states_[from].length + 1, states_[to].link);
  states_[made].count = states_[to].count;
  states_[made].best = states_[to].best;
  states_[made].best_token = states_[to].best_token;
  if (states_[to].edges == kOneEdge) states_[made].edges = kOneEdge;
  for (int32_t at = states_[to].edges; at >= 0; at = edges_[at].next) {
    Put(made, edges_[at].token, edges_[at].to);
  }
  states_[to].link = made;
  for (State state = from; state >= 0; state = states_[state].link) {
    Node& node = states_[state];
    if (Step(state, token) != to) break;
    if (node.edges >= 0) Find(state, token)->to = made;
    if (node.best == to && node.best_token == token) node.best = made;
  }
  return made;
}

SuffixAutomaton::State SuffixAutomaton::Extend(State text, int32_t token) {
  State from = text;
  State to = Step(from, token);
  int32_t missing = 0, places = 0;
  while (to < 0 && from >= 0) {
    ++missing;
    places += PlacesForEdge(from);
    from = states_[from].link;
    if (from >= 0) to = Step(from, token);
  }
  const bool known = to >= 0;
  if (!known) to = kRoot;
  const bool splits = known && states_[to].length != states_[from].length + 1;
  if (!HasRoomFor(2, places + (splits ? PlacesForCopy(to) : 0))) return kFull;
  State longer = to;
  if (missing > 0) {
    longer = Add(states_[text].length + 1, kRoot);
    for (State state = text; state != from; state = states_[state].link) {
      AddEdge(state, token, longer);
    }
  }
  const State shorter = splits ? Split(from, token, to) : to;
  if (missing > 0) {
    states_[longer].link = shorter;
  } else {
    longer = shorter;
  }
  Count(text, token, longer);
  return longer;
}

// The ends of the text before `token` lead to the ends of the text behind it, both from the longest
// to the shortest, so that no edge has to be looked up.
void SuffixAutomaton::Count(State text, int32_t token, State longer) {
  State before = text;
  int32_t left = kCounted;
  for (State state = longer; state != kRoot && left > 0; state = states_[state].link, --left) {
    const int32_t count = ++states_[state].count;
    const int32_t shortest = states_[states_[state].link].length + 1;
    for (; before >= 0 && states_[before].length + 1 >= shortest && left > 0; --left) {
      Node& node = states_[before];
      if (node.best < 0 || count >= states_[node.best].count) {
        node.best = state;
        node.best_token = token;
      }
      before = node.link;
    }
  }
}

void SuffixAutomaton::Advance(int32_t token, Match* match) const {
  // States that were made since may have taken over the shorter runs of this one.
  while (match->state != kRoot && match->length <= states_[states_[match->state].link].length) {
    match->state = states_[match->state].link;
  }
  for (;;) {
    if (const State next = Step(match->state, token); next >= 0) {
      match->state = next;
      ++match->length;
      return;
    }
    if (match->state == kRoot) {
      match->length = 0;
      return;
    }
    *match = Shorter(match->state);
  }
}

SuffixAutomaton::Guess SuffixAutomaton::Follow(const Match& match, int32_t ends, double least,
                                               std::span<int32_t> drafts) const {
  Guess guess;
  double probability = 1;
  State state = match.state;
  for (int32_t& draft : drafts) {
    // Behind a text's end it goes on with what followed the same tokens before.
    while (state != kRoot && states_[state].best < 0) state = states_[state].link;
    if (state == kRoot) break;
    const Node& node = states_[state];
    const int32_t seen = std::max(1, states_[node.best].count);
    probability *= static_cast<double>(seen) / std::max(node.count - ends, seen);
    if (probability < least) break;
    draft = node.best_token;
    guess.expected += probability;
    ++guess.count;
    state = node.best;
    ends = 0;
  }
  return guess;
}

const SuffixAutomaton::Edge* SuffixAutomaton::Second(State from) const {
  const Edge* second = nullptr;
  int32_t left = kEdgesSeen;
  for (int32_t at = states_[from].edges; at >= 0; at = edges_[at].next) {
    const Edge& edge = edges_[at];
    if (--left < 0) return nullptr;
    if (edge.token == states_[from].best_token) continue;
    if (second == nullptr || states_[edge.to].count > states_[second->to].count) second = &edge;
  }
  return second;
}

SuffixAutomaton::State SuffixAutomaton::Followed(State state) const {
  while (state != kRoot && states_[state].best < 0) state = states_[state].link;
  return state;
}

int32_t SuffixAutomaton::FollowAside(const Match& match, int32_t ends, int32_t count,
                                     int32_t length, double least, std::span<Aside> asides) const {
  int32_t found = 0;
  State state = match.state;
  for (int32_t place = 0; place < count && found < static_cast<int32_t>(asides.size()); ++place) {
    state = Followed(state);
    if (state == kRoot) break;
    const Edge* const second = Second(state);
    const double share = second == nullptr ? 0.0
                                           : static_cast<double>(states_[second->to].count) /
                                                 std::max(1, states_[state].count - ends);
    if (second != nullptr && share >= least)
      found += BranchOff(*second, place, count + found,
                         asides.subspan(found).first(
                             std::min(asides.size() - found, static_cast<size_t>(length))));
    state = states_[state].best;
    ends = 0;
  }
  return found;
}

// What follows the edge, which leaves the draft of this place, as far as there is room. The first
// of them has the number `first` + 1. Returns how many there are.
int32_t SuffixAutomaton::BranchOff(const Edge& edge, int32_t place, int32_t first,
                                   std::span<Aside> asides) const {
  if (asides.empty()) return 0;
  int32_t found = 0;
  asides[found++] = {.token = edge.token, .parent = place};
  State next = Followed(edge.to);
  while (next != kRoot && found < static_cast<int32_t>(asides.size())) {
    asides[found] = {.token = states_[next].best_token, .parent = first + found};
    ++found;
    next = Followed(states_[next].best);
  }
  return found;
}

void SuffixAutomaton::CheckInvariants() const {
  int32_t edges = 0;
  for (State state = 0; state < node_count_; ++state) {
    const Node& node = states_[state];
    CHECK(state == kRoot ? node.link < 0 : states_[node.link].length < node.length, state);
    bool has_best = node.best < 0 || node.edges == kOneEdge;
    CHECK(node.edges != kOneEdge || (node.best > 0 && states_[node.best].length > node.length),
          state);
    CHECK(node.edges < 0 || edges_[node.edges].next >= 0, "state ", state, " has one edge outside");
    for (int32_t at = node.edges; at >= 0; at = edges_[at].next, ++edges) {
      CHECK(edges_[at].from == state && states_[edges_[at].to].length > node.length, state);
      has_best |= edges_[at].to == node.best && edges_[at].token == node.best_token;
    }
    CHECK(has_best, "state ", state, " goes on best to one that does not follow it");
  }
  CHECK(edges == edge_count_ && edges <= edge_max_ && node_count_ <= node_max_, edges);
}

}  // namespace sluice::speculate
