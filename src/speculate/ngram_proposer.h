// NgramProposer: drafts what followed the last tokens when they stood in the prompt or the answer
// before (prompt lookup). Of the last 5 down to the last 2 tokens the longest run that was there
// before counts, and of its occurrences the most recent. Texts that quote their prompt repeat long
// pieces of it.
//
// A sequence has a hash table with the last place of every run, which grows by four entries with a
// token, so a step costs the same however long the sequence is. A sequence whose runs pass the
// table's room is indexed anew from the later half of what fits. The table is searched at a bounded
// number of places, from one that nobody can compute ahead, since clients choose the tokens; a run
// that finds no place there is not remembered.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/seeded_hash.h"
#include "speculate/proposer.h"

namespace sluice::speculate {

class NgramProposer final : public Proposer {
 public:
  // Of all tables together. They take memory as sequences use them.
  static constexpr size_t kBytesMax = size_t{256} << 20;
  // Tokens that a call indexes, and that the calls of a step index together, so that neither a long
  // prompt nor many hold up a step; until it has caught up there are no drafts. A call takes half
  // of what its step has left, so that some is left for those behind it.
  static constexpr int32_t kTokensOfCall = 8192;
  static constexpr int32_t kTokensOfRound = 2 * kTokensOfCall;
  // Places of a table that are looked at for a run. In one that is three quarters full, one run in
  // 20,000 finds no place among so many.
  static constexpr int32_t kProbesMax = 32;

  // REQUIRES: both limits are positive.
  explicit NgramProposer(const ProposerLimits& limits, size_t bytes_max = kBytesMax,
                         const HashSeed& seed = ProcessHashSeed());

  void Start(int32_t slot, const Opening& opening) override;
  Draft Propose(int32_t slot, std::span<const int32_t> tokens, std::span<int32_t> drafts) override;

  // The hash of a run that has one token more in front; of no tokens it is 0. Its lowest bits are
  // the first place of a table that is looked at.
  static uint64_t Extend(uint64_t hash, int32_t token, const HashSeed& seed);

 private:
  static constexpr int32_t kShortest = 2, kLongest = 5;
  static constexpr int32_t kRuns = kLongest - kShortest + 1;  // that end at a token
  // The fewest entries that a table is made for, whatever kBytesMax leaves.
  static constexpr uint32_t kCapacityMin = 1024;

  static constexpr int32_t kAhead = 8;  // tokens by which entries are prefetched

  // Where a run of tokens ended last: 1 + the place of its last token, and its length less
  // kShortest in the two lowest bits. 0: free.
  using Entry = uint32_t;

  struct Table {
    uint32_t size = 0;  // entries in use of its part of memory_; a power of two
    uint32_t taken = 0;
    int32_t begin = 0;        // the first token that it knows
    int32_t indexed = 0;      // the first that it has not seen yet
    int32_t match = -1;       // where the longest run that ends at the last token seen ended before
    int32_t match_grade = 0;  // its length less kShortest
    uint64_t round = 0;       // of its last call
  };

  // Three quarters of the entries may be taken; behind that searches get long.
  static constexpr int32_t RoomOf(uint32_t entries) {
    return static_cast<int32_t>(entries / 4 * 3 / kRuns);
  }
  static uint32_t EntriesFor(int32_t tokens);
  Entry* EntriesOf(int32_t slot) { return memory_.get() + size_t{capacity_} * slot; }
  struct Hashes {
    int32_t count = 0;
    std::array<uint64_t, kLongest> of;
  };
  Hashes HashRuns(const Table& table, std::span<const int32_t> tokens, int32_t at) const;
  void Clear(int32_t slot, int32_t begin);
  void Prefetch(int32_t slot, std::span<const int32_t> tokens, int32_t at);
  // Takes in token `at` with the runs that end there.
  void Index(int32_t slot, std::span<const int32_t> tokens, int32_t at);

  const HashSeed seed_;
  uint64_t round_ = 1;                    // a step: a slot that is called again begins the next
  int32_t tokens_left_ = kTokensOfRound;  // of the round
  uint32_t capacity_ = 0;                 // entries of a slot
  std::unique_ptr<Entry[]> memory_;
  std::vector<Table> tables_;  // by slot
};

}  // namespace sluice::speculate
