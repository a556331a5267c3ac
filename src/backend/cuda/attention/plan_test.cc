// The work list by the code that the device runs, with one lane for its 32.
#include "backend/cuda/attention/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <vector>

namespace sluice::cuda {
namespace {

struct OneLane {
  static constexpr int kLanes = 1;
  int lane() const { return 0; }
  template <class T>
  T Scan(T value) const {
    return value;
  }
  template <class T>
  T Last(T value) const {
    return value;
  }
  int Largest(int value) const { return value; }
};

struct Chunk {
  int tokens, context;
};

// The shape of an 8B model on an H200.
class PlanTest : public ::testing::Test {
 protected:
  void Make(const std::vector<Chunk>& chunks, int64_t slots_max = 16000, int window = 0,
            int wide_rows = 0, int stream_tokens = 0) {
    start_ = {0};
    context_.clear();
    for (const Chunk& chunk : chunks) {
      start_.push_back(start_.back() + chunk.tokens);
      context_.push_back(chunk.context);
    }
    p_.query_start = start_.data();
    p_.context = context_.data();
    p_.tokens = start_.back();
    p_.sequences = static_cast<int32_t>(chunks.size());
    p_.blocks_max = 131072 / 16;
    p_.block_tokens = 16;
    p_.q_heads = kv_heads_ * group_;
    p_.kv_heads = kv_heads_;
    p_.group = group_;
    p_.causal = 1;
    p_.window = window;
    p_.tile_rows = kMmaRows;
    p_.wide_rows = wide_rows;
    p_.stream_tokens = stream_tokens;
    p_.thread_blocks = 264;
    p_.slots_max = static_cast<int32_t>(slots_max);
    numbers_.assign(kHeadSize + 8 * chunks.size(), -7);
    MakePlan(p_, OneLane(), numbers_.data());
    plan_ = PlanOf(numbers_.data());
  }

  Tile Item(int index) const {
    int entry = plan_.head[kEntries] - 1;
    while (plan_.entries[entry].item > index) --entry;
    return ItemAt(p_, plan_.head[kPieceSplits], plan_.entries[entry], index);
  }

  // Every tile, KV head and split of every sequence is somebody's, once.
  void ExpectComplete() {
    std::set<std::tuple<int, int, int, int>> done;
    for (int i = 0; i < plan_.head[kItems] + plan_.head[kStreamItems]; ++i) {
      const Tile tile = Item(i);
      ASSERT_GT(tile.rows, 0);
      for (int split = tile.piece_begin; split < tile.piece_end; ++split) {
        if (split >= tile.first_split + tile.splits) break;
        EXPECT_TRUE(done.insert({tile.at.index, tile.row, tile.kv_head, split}).second) << i;
      }
    }
    size_t wanted = 0;
    for (int s = 0; s < p_.sequences; ++s) {
      const SequenceWork work = WorkOf(p_, LoadSequence(p_, s));
      wanted += static_cast<size_t>(work.tiles) * work.splits * p_.kv_heads;
    }
    EXPECT_EQ(done.size(), wanted);
  }

  // No two partial results lie in the same place, and all have room.
  void ExpectApart() {
    std::set<int64_t> taken;
    int tokens = 0;
    for (int entry = 0; entry < plan_.head[kEntries]; ++entry) {
      const SequenceWork work = WorkOf(p_, plan_.entries[entry]);
      EXPECT_EQ(plan_.entries[entry].row, tokens);
      if (plan_.entries[entry].slot < 0) continue;
      for (int token = 0; token < work.at.tokens; ++token) {
        for (int split = 0; split < work.splits; ++split) {
          const int64_t row =
              PartialRow(p_, plan_.entries[entry].slot, token, work.splits, split, 0);
          EXPECT_LE(row + p_.q_heads, int64_t{p_.slots_max} * p_.q_heads);
          EXPECT_TRUE(taken.insert(row).second);
        }
      }
      tokens += work.at.tokens;
    }
    EXPECT_EQ(plan_.head[kSplitRows], tokens);
  }

  bool IsSplit(int sequence) const {
    for (int entry = 0; entry < plan_.head[kEntries]; ++entry) {
      if (plan_.entries[entry].sequence == sequence) return plan_.entries[entry].slot >= 0;
    }
    return false;
  }

  int kv_heads_ = 8, group_ = 4;
  AttentionParams p_ = {};
  std::vector<int32_t> start_, context_, numbers_;
  StepPlan plan_ = {};
};

// A tree of 7 rows, of which those from row 4 on are aside, behind a sequence that has none.
TEST_F(PlanTest, RowsAsideAreLeftOutAndThenSequencesOfTheirOwn) {
  Make({{2, 40}, {7, 90'007}, {0, 0}, {3, 700}});
  // The second of its ancestors stands two places behind its position, itself three.
  std::vector<int32_t> paths(12 * 4, 0);
  for (const int row : {6, 7, 8}) {
    const int32_t numbers[] = {2, 2, 3};
    std::copy_n(numbers, 3, paths.begin() + row * 4);
  }
  p_.paths = paths.data();
  p_.path_stride = 4;
  const SequenceAt branch = LoadSequence(p_, 1);
  EXPECT_EQ(branch.first_token, 2);
  EXPECT_EQ(branch.tokens, 4);
  EXPECT_EQ(branch.context, 90'004);
  EXPECT_EQ(branch.Position(0), 90'000);
  EXPECT_EQ(LoadSequence(p_, 3).tokens, 3);
  p_.aside_of = p_.sequences;
  p_.sequences = p_.tokens;
  for (int row = 0; row < 12; ++row) {
    const SequenceAt at = LoadSequence(p_, row);
    EXPECT_EQ(at.tokens, row >= 6 && row < 9 ? 1 : 0) << row;
    if (at.tokens == 0) continue;
    EXPECT_EQ(at.index, 1);
    EXPECT_EQ(at.first_token, row);
    EXPECT_EQ(at.Position(0), 90'000 + row - 2 - 3);
  }
  numbers_.assign(kHeadSize + 8 * 12, -7);
  MakePlan(p_, OneLane(), numbers_.data());
  plan_ = PlanOf(numbers_.data());
  EXPECT_EQ(plan_.head[kEntries], 3);
  for (int entry = 0; entry < 3; ++entry) EXPECT_EQ(plan_.entries[entry].sequence, 1);
  EXPECT_EQ(plan_.head[kSplitRows], 3);
  ExpectApart();
}

TEST_F(PlanTest, EverySplitIsSomebodysOnce) {
  const std::vector<Chunk> steps[] = {
      {{1, 1}},
      {{1, 700}, {0, 0}, {1, 90'000}, {5, 5}, {300, 4000}, {64, 1200}, {0, 0}},
      {{2048, 2048}, {1, 8192}},
      {{16, 16}, {17, 100'000}, {1, 256}, {1, 257}},
  };
  for (const std::vector<Chunk>& chunks : steps) {
    for (const int64_t slots : {0, 300, 16000}) {
      for (const int window : {0, 1000}) {
        for (const int wide_rows : {0, kWideRows}) {
          for (const int stream_tokens : {0, 1, 5}) {
            Make(chunks, slots, window, wide_rows, stream_tokens);
            ExpectComplete();
            ExpectApart();
          }
        }
      }
    }
  }
}

TEST_F(PlanTest, ALongSequenceBesideShortOnesIsSharedByAllThreadBlocks) {
  std::vector<Chunk> chunks(63, {1, 1024});
  chunks.push_back({1, 122'880});
  Make(chunks);
  EXPECT_TRUE(IsSplit(63));
  EXPECT_FALSE(IsSplit(0));
  EXPECT_EQ(Item(0).at.index, 63) << "its pieces are longer than what the others have";
  // No item takes longer than a thread block's share.
  const int total = 63 * 4 + 480;
  EXPECT_LE(plan_.head[kPieceSplits] * p_.thread_blocks, total * p_.kv_heads);
}

TEST_F(PlanTest, WhatIsStreamedComesInTilesOfATokenAndPiecesOfASplit) {
  Make({{1, 1024}, {300, 4000}, {1, 200}, {1, 90'000}}, 16000, 0, 0, 1);
  ExpectComplete();
  ExpectApart();
  EXPECT_EQ(plan_.head[kStreamItems], 8 * (4 + 1 + 352));
  for (int i = plan_.head[kItems]; i < plan_.head[kItems] + plan_.head[kStreamItems]; ++i) {
    const Tile tile = Item(i);
    EXPECT_EQ(tile.at.tokens, 1);
    EXPECT_EQ(tile.piece_end - tile.piece_begin, 1);
    EXPECT_EQ(tile.rows, 4);
  }
  EXPECT_TRUE(IsSplit(0)) << "though short";
  EXPECT_FALSE(IsSplit(2)) << "one split is no part";
  EXPECT_EQ(Item(0).at.index, 1) << "the chunk is the other kernel's";
}

// Padding may leave a step with more sequences than tokens, of which one has several.
TEST_F(PlanTest, ASequenceOfSeveralTokensIsStreamedTokenByToken) {
  Make({{5, 700}, {0, 0}, {0, 0}, {0, 0}, {0, 0}}, 16000, 0, 0, 5);
  ExpectComplete();
  ExpectApart();
  EXPECT_EQ(plan_.head[kItems], 0);
  EXPECT_EQ(plan_.head[kStreamItems], 5 * 3 * 8);
}

TEST_F(PlanTest, LargeGroupsAreStreamedInSeveralTiles) {
  kv_heads_ = 2;
  group_ = 12;
  Make({{1, 600}, {1, 300}}, 16000, 0, 0, 1);
  ExpectComplete();
  ExpectApart();
  EXPECT_EQ(plan_.head[kStreamItems], 2 * 2 * (3 + 2));
  EXPECT_EQ(Item(0).rows, 8);
  EXPECT_EQ(Item(1).row, 8) << "the same keys, at the same time";
  EXPECT_EQ(Item(1).rows, 4);
}

// One split of a warp at a time, in whatever order: where they have no room, one warp takes all.
TEST_F(PlanTest, WhatIsStreamedWithoutRoomIsNotSplit) {
  Make({{1, 100'000}, {1, 100'000}}, 600, 0, 0, 1);
  EXPECT_TRUE(IsSplit(0));
  EXPECT_FALSE(IsSplit(1));
  EXPECT_EQ(plan_.head[kStreamItems], 8 * (391 + 1));
  ExpectComplete();
  ExpectApart();
}

TEST_F(PlanTest, ADecodeRowBesideALongChunkIsSplit) {
  Make({{2048, 2048}, {1, 8192}});
  EXPECT_TRUE(IsSplit(1));
  EXPECT_FALSE(IsSplit(0));
  EXPECT_EQ(Item(0).at.index, 0) << "what takes longest begins first";
  EXPECT_EQ(Item(plan_.head[kItems] - 1).at.index, 1);
}

TEST_F(PlanTest, ALoneShortSequenceIsSplitAsFarAsItGoes) {
  Make({{1, 1024}});
  EXPECT_EQ(plan_.head[kPieceSplits], 1);
  EXPECT_EQ(plan_.head[kItems], 4 * 8);
}

// 64 sequences of 5 splits are 512 tiles for 264 thread blocks: none has more than two of them, so
// pieces would not end sooner. Of 48 a third of the thread blocks would take two tiles, the others
// one.
TEST_F(PlanTest, EqualSequencesThatFillTheThreadBlocksAreNotSplit) {
  for (const int sequences : {32, 64, 256}) {
    Make(std::vector<Chunk>(sequences, {1, 1050}));
    EXPECT_FALSE(IsSplit(0)) << sequences;
    EXPECT_EQ(plan_.head[kItems], 8 * sequences);
    EXPECT_EQ(plan_.head[kSplitRows], 0);
    ExpectComplete();
  }
  Make(std::vector<Chunk>(48, {1, 1050}));
  EXPECT_TRUE(IsSplit(0));
  ExpectComplete();
}

TEST_F(PlanTest, ALongSequenceIsSplitWhereTheOthersAreTooFewToHideIt) {
  std::vector<Chunk> chunks(63, {1, 1050});
  chunks.push_back({1, 2500});
  Make(chunks);
  EXPECT_TRUE(IsSplit(63));
  // Short ones beside a prompt's chunk go by the share of a thread block, as before.
  Make({{2048, 2048}, {1, 8192}, {1, 8192}});
  EXPECT_TRUE(IsSplit(1));
}

// 64 query tokens in groups of four are the most that the other kernel's four tiles have.
TEST_F(PlanTest, SequencesOfManyRowsAreTheWideKernels) {
  Make({{1, 8192}, {65, 900}, {64, 900}, {2048, 2048}, {1, 300}}, 16000, 0, kWideRows);
  const int wide = plan_.head[kWideItems];
  EXPECT_EQ(wide, 8 * (3 + 64));
  for (int i = 0; i < plan_.head[kItems]; ++i) {
    const Tile tile = Item(i);
    const bool many = tile.at.tokens > 64;
    ASSERT_EQ(many, i < wide) << i;
    EXPECT_FALSE(many && tile.split()) << i;
    EXPECT_EQ(tile.row % (many ? kWideRows : kMmaRows), 0);
    EXPECT_LE(tile.rows, many ? kWideRows : kMmaRows);
  }
  EXPECT_EQ(Item(0).rows, 65 * 4 - 2 * kWideRows) << "the last tile of a sequence begins";
  Make({{1, 8192}, {2048, 2048}});
  EXPECT_EQ(plan_.head[kWideItems], 0);
}

// What the wide kernel does takes no thread block from the others' sequences.
TEST_F(PlanTest, PiecesAreThoseOfAStepWithoutWideSequences) {
  Make({{1, 8192}, {1, 1024}}, 16000, 0, kWideRows);
  const int alone = plan_.head[kPieceSplits];
  Make({{1, 8192}, {4096, 4096}, {1, 1024}}, 16000, 0, kWideRows);
  EXPECT_EQ(plan_.head[kPieceSplits], alone);
  Make({{1, 8192}, {4096, 4096}, {1, 1024}});
  EXPECT_GT(plan_.head[kPieceSplits], alone);
}

TEST_F(PlanTest, WhatHasNoRoomIsNotSplit) {
  Make({{1, 100'000}, {1, 100'000}}, 600);
  EXPECT_TRUE(IsSplit(0));
  EXPECT_FALSE(IsSplit(1));
  ExpectComplete();
  ExpectApart();
}

TEST_F(PlanTest, AContextBeyondItsTableEndsThere) {
  Make({{1, 200'000}});
  EXPECT_EQ(WorkOf(p_, LoadSequence(p_, 0)).splits, 131072 / kSplitTokens);
  ExpectComplete();
}

TEST_F(PlanTest, TheListIsNoLongerThanItsMemory) {
  Make(std::vector<Chunk>(500, {1, 3000}));
  EXPECT_EQ(plan_.head[kEntries], 500);
  EXPECT_EQ(plan_.entries[499].sequence, 499);
  EXPECT_EQ(reinterpret_cast<int32_t*>(plan_.entries + 500), numbers_.data() + numbers_.size());
}

}  // namespace
}  // namespace sluice::cuda
