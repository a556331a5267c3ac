// SuffixAutomaton: every run of tokens that stands in the texts added to it, and how often each was
// seen. A suffix automaton (Blumer and others, 1985) is a suffix tree's smaller relative: runs that
// are seen at the same places are one state. A text grows by a token in constant time on average,
// several texts may grow in turns, and a text that repeats what is there takes no memory.
//
// The memory is fixed when it is made; Extend says when it is used up. For one thread.
//
// A state's runs differ in length and end at the same places: the longest has `length` tokens, and
// the state of the longest of their ends that is seen at more places is its `link`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/seeded_hash.h"
#include "speculate/draft_tree.h"

namespace sluice::speculate {

class SuffixAutomaton {
 public:
  using State = int32_t;
  static constexpr State kRoot = 0;   // of the empty run
  static constexpr State kFull = -1;  // there is no memory for one more token

  // Made for texts of `tokens` in all, of which it holds at least half, whatever they are. The
  // system gives the memory, 88 bytes a token, as it is written to.
  explicit SuffixAutomaton(int32_t tokens);
  static int32_t TokensIn(size_t bytes) { return static_cast<int32_t>(bytes / kTokenBytes); }

  // Forgets everything, and uses no more memory than `tokens` take from now on. To be called before
  // the first Extend, too.
  void Clear(int32_t tokens);

  // The state of a text that ended in `text` (kRoot: it was empty) with `token` behind it. kFull:
  // nothing has changed. REQUIRES: `text` comes from here, since the last Clear.
  State Extend(State text, int32_t token);

  // The longest end of a text that was seen here, of up to `length` tokens.
  struct Match {
    State state = kRoot;
    int32_t length = 0;
  };
  // Has the memory brought near that Extend and Advance look at for `token` where what stands
  // before it was not seen with it. It is known before a call and lies anywhere, so that many can
  // be fetched at once.
  void Prefetch(int32_t token) const { __builtin_prefetch(&edges_[PlaceOf(kRoot, token)]); }
  // As Prefetch, of what is known of `state`, which comes from here.
  void PrefetchState(State state) const { __builtin_prefetch(&states_[state]); }
  // The match of the same text with `token` behind it.
  void Advance(int32_t token, Match* match) const;
  // The longest match of the text that ended in `text` before its own end.
  Match Before(State text) const { return Shorter(text); }
  // The longest end of the runs of `state` that was seen at more places. REQUIRES: not kRoot.
  Match Shorter(State state) const {
    return {states_[state].link, states_[states_[state].link].length};
  }

  struct Guess {
    int32_t count = 0;
    double expected = 0;  // of these, how many are right
  };
  // Writes what followed `match` most often into *drafts, token by token, while the probability of
  // all of them, the product of their shares, is at least `least`. `ends`: how often the match was
  // seen at a text's end, where nothing followed.
  Guess Follow(const Match& match, int32_t ends, double least, std::span<int32_t> drafts) const;

  // The same walk over `count` drafts that Follow gave: what followed second most often at each of
  // their places, with up to `length` tokens in a row, where it has at least the share `least`.
  // Returns how many there are. Places where too much followed to look through it are passed over.
  int32_t FollowAside(const Match& match, int32_t ends, int32_t count, int32_t length, double least,
                      std::span<Aside> asides) const;

  void CheckInvariants() const;

 private:
  // Of the states that a new token is counted in, beginning with its longest run. A text that
  // repeats one token has as many as it has tokens.
  static constexpr int32_t kCounted = 64;
  static constexpr int32_t kEdgesSeen = 32;  // of a state, at most, by FollowAside

  // Most states have one edge at most, and it stands in the state.
  struct Node {
    int32_t length, link;
    int32_t count;       // how often its runs were seen
    int32_t edges;       // the newest of its edges, as its place in edges_; or one of those below
    int32_t best;        // the state behind it that was seen most often; negative: none
    int32_t best_token;  // that leads there
  };
  static constexpr int32_t kNoEdge = -1;
  static constexpr int32_t kOneEdge = -2;  // from best_token to best
  // Of a state with several, in a hash table of (from, token). Clients choose the tokens, so its
  // hash has a key of the process.
  struct Edge {
    int32_t from;  // negative: the place is free
    int32_t token, to;
    int32_t next;  // of the same state; kNoEdge: none
  };
  // Of a text of n tokens there are at most 2n states and 3n edges. Text needs fewer, of which
  // those that stand in a state take no place.
  static constexpr double kNodesPerToken = 1.5, kPlacesPerToken = 3.2, kTaken = 0.7;
  static constexpr size_t kTokenBytes = 88;
  static_assert(kTokenBytes >= kNodesPerToken * 24 + kPlacesPerToken * 16);

  size_t PlaceOf(State from, int32_t token) const;
  Edge* Find(State from, int32_t token) const;
  // The edge that was taken second most often; null: there is none, or there are too many edges.
  const Edge* Second(State from) const;
  // The longest run at the end of this one behind which something was seen; kRoot: there is none.
  State Followed(State state) const;
  int32_t BranchOff(const Edge& edge, int32_t place, int32_t first, std::span<Aside> asides) const;
  // Where `token` leads from there; negative: nowhere.
  State Step(State from, int32_t token) const;
  void AddEdge(State from, int32_t token, State to);
  void Put(State from, int32_t token, State to);  // into edges_
  // The places that one more edge of the state takes, and that a copy of all its edges takes.
  int32_t PlacesForEdge(State state) const;
  int32_t PlacesForCopy(State state) const;
  bool HasRoomFor(int32_t states, int32_t places) const {
    return node_count_ + states <= node_max_ && edge_count_ + places <= edge_max_;
  }
  State Add(int32_t length, State link);
  // Gives the runs of `to` of at most one token more than those of `from` a state of their own.
  State Split(State from, int32_t token, State to);
  void Count(State text, int32_t token, State longer);

  static int32_t NodesFor(int32_t tokens);
  static size_t PlacesFor(int32_t tokens);

  const HashSeed seed_ = ProcessHashSeed();
  int32_t tokens_max_ = 0;
  std::unique_ptr<Node[]> states_;
  std::unique_ptr<Edge[]> edges_;
  int32_t node_count_ = 0, node_max_ = 0;
  int32_t edge_count_ = 0, edge_max_ = 0;  // in edges_
  size_t places_ = 0;                      // of edges_, in use
};

}  // namespace sluice::speculate
