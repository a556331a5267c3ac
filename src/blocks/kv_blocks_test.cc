#include "blocks/kv_blocks.h"

#include <gtest/gtest.h>

#include <numeric>

namespace sluice::blocks {
namespace {

using Tokens = std::vector<int32_t>;

batch::KvGroup Full(int32_t num_blocks, int32_t kernel = 4) {
  return {batch::KvKind::kFull, 4, kernel, 0, num_blocks};
}
batch::KvGroup Window(int32_t num_blocks, int32_t window) {
  return {batch::KvKind::kWindow, 4, 4, window, num_blocks};
}
Tokens Count(int32_t n) {
  Tokens tokens(n);
  std::iota(tokens.begin(), tokens.end(), 100);
  return tokens;
}

// Computes the whole of `tokens` for a new sequence, in one step, and closes it: its full blocks
// stay cached.
void Warm(KvBlocks* kv, const batch::PrefixKey& key, const Tokens& tokens) {
  SequenceBlocks sequence;
  kv->Open(key, true, &sequence);
  ASSERT_TRUE(kv->Grow(&sequence, static_cast<int32_t>(tokens.size())));
  kv->Publish(tokens, static_cast<int32_t>(tokens.size()), &sequence);
  kv->Close(&sequence, 0);
}

TEST(KvGroup, RefusesWhatCannotBeServed) {
  const auto code = [](std::vector<batch::KvGroup> groups) {
    return batch::Validate(groups).code();
  };
  EXPECT_EQ(code({Full(4), Window(4, 7)}), StatusCode::kOk);
  EXPECT_EQ(code({}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code({{batch::KvKind::kFull, 0, 1, 0, 4}}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code({{batch::KvKind::kFull, 16, 3, 0, 4}}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code({{batch::KvKind::kFull, 16, 0, 0, 4}}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code({{batch::KvKind::kFull, 16, 16, 5, 4}}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code({{batch::KvKind::kWindow, 16, 16, 0, 4}}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code({Full(0)}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code({Full(4), {batch::KvKind::kFull, 8, 8, 0, 4}}), StatusCode::kInvalidArgument);
}

TEST(KvGroup, PeakCountsWhatAWindowHoldsAtOnce) {
  EXPECT_EQ(batch::PeakBlocks(Full(9), 17, 4), 5);
  EXPECT_EQ(batch::PeakBlocks(Window(9, 5), 100, 4), 3);  // 8 positions touch at most 3 blocks of 4
  EXPECT_EQ(batch::PeakBlocks(Window(9, 5), 6, 4), 2);    // no more than the whole
  EXPECT_EQ(batch::PeakBlocks({batch::KvKind::kState, 4, 4, 0, 9}, 100, 4), 2);
  EXPECT_EQ(batch::PeakBlocks(Full(9), 0, 4), 0);
}

TEST(KvBlocks, GrowTakesAllGroupsOrNone) {
  KvBlocks kv({Full(8), Full(2)}, true);
  SequenceBlocks a;
  kv.Open({}, true, &a);
  EXPECT_FALSE(kv.Grow(&a, 9));  // 3 blocks; the second group has 2
  EXPECT_EQ(kv.pool(0).referenced(), 0);
  EXPECT_EQ(kv.GrowableTo(a, 9, false), 8);
  EXPECT_TRUE(kv.Grow(&a, 8));
  EXPECT_EQ(kv.pool(0).referenced(), 2);
  EXPECT_EQ(kv.GrowableTo(a, 100, false), 8);
}

TEST(KvBlocks, AClosedSequencesPrefixIsFoundAgain) {
  KvBlocks kv({Full(8)}, true);
  Warm(&kv, {}, Count(11));
  EXPECT_EQ(kv.pool(0).cached(), 2);
  EXPECT_EQ(kv.pool(0).free(), 6);
  SequenceBlocks b;
  kv.Open({}, true, &b);
  EXPECT_EQ(kv.Match(Count(11), 10, &b), 8);
  EXPECT_EQ(b.groups[0].held, 2);
  EXPECT_EQ(kv.pool(0).cached(), 0);
  const SequenceBlocks* open[] = {&b};
  kv.CheckInvariants(open);
}

TEST(KvBlocks, AHitStopsAtTheLimitAndAtTheFirstDifference) {
  KvBlocks kv({Full(8)}, true);
  Warm(&kv, {}, Count(8));
  const auto hit = [&](const Tokens& tokens, int32_t limit) {
    SequenceBlocks b;
    kv.Open({}, true, &b);
    const int32_t length = kv.Match(tokens, limit, &b);
    kv.Close(&b, 0);
    return length;
  };
  EXPECT_EQ(hit(Count(8), 7), 4);  // a full hit leaves a token to compute
  EXPECT_EQ(hit(Count(9), 8), 8);
  Tokens other = Count(9);
  other[5] = 0;
  EXPECT_EQ(hit(other, 8), 4);
  other[0] = 0;
  EXPECT_EQ(hit(other, 8), 0);
}

TEST(KvBlocks, KeysDoNotShare) {
  KvBlocks kv({Full(8)}, true);
  Warm(&kv, {.salt = "alice"}, Count(8));
  SequenceBlocks b;
  kv.Open({.salt = "bob"}, true, &b);
  EXPECT_EQ(kv.Match(Count(9), 8, &b), 0);
  kv.Close(&b, 0);
  kv.Open({.salt = "alice"}, false, &b);  // opted out
  b.hashes.clear();
  EXPECT_EQ(kv.Match(Count(9), 8, &b), 0);
}

TEST(KvBlocks, TheEndOfAPrefixIsEvictedFirst) {
  KvBlocks kv({Full(4)}, true);
  Warm(&kv, {}, Count(16));
  SequenceBlocks a;
  kv.Open({}, false, &a);
  ASSERT_TRUE(kv.Grow(&a, 5));  // takes two of the four
  SequenceBlocks b;
  kv.Open({}, true, &b);
  EXPECT_EQ(kv.Match(Count(16), 15, &b), 8);
  const SequenceBlocks* open[] = {&a, &b};
  kv.CheckInvariants(open);
}

TEST(KvBlocks, ABlockIsReusedOnlyAfterItsLastStepRetired) {
  KvBlocks kv({Full(2)}, false);
  SequenceBlocks a, b;
  kv.Open({}, true, &a);
  kv.Open({}, true, &b);
  ASSERT_TRUE(kv.Grow(&a, 8));
  kv.Close(&a, 5);
  EXPECT_FALSE(kv.Grow(&b, 1));
  const int32_t need[] = {2};
  EXPECT_FALSE(kv.Covers(need, false));
  EXPECT_TRUE(kv.Covers(need, true));
  kv.Retire(4);
  EXPECT_FALSE(kv.Grow(&b, 1));
  const uint64_t version = kv.availability_version();
  kv.Retire(5);
  EXPECT_GT(kv.availability_version(), version);
  EXPECT_TRUE(kv.Grow(&b, 8));
}

TEST(KvBlocks, AWindowGroupLetsOldBlocksGo) {
  KvBlocks kv({Full(8), Window(8, 5)}, false);
  SequenceBlocks a;
  kv.Open({}, true, &a);
  ASSERT_TRUE(kv.Grow(&a, 20));
  kv.LetGo(&a, 12, 0);  // a query at 12 reads 8..12
  EXPECT_EQ(a.groups[0].held, 5);
  EXPECT_EQ(a.groups[1].held, 3);
  EXPECT_EQ(a.groups[1].table[1], -1);
  EXPECT_GE(a.groups[1].table[2], 0);
  std::vector<int32_t> ids;
  EXPECT_EQ(kv.TellKernelTable(&a, 1, 13, &ids), 0);
  EXPECT_EQ(ids, (Tokens{-1, -1, a.groups[1].table[2], a.groups[1].table[3]}));
  kv.LetGo(&a, 11, 0);  // 7..11: nothing comes back
  EXPECT_EQ(a.groups[1].first_held, 2);
  const SequenceBlocks* open[] = {&a};
  kv.CheckInvariants(open);
}

// A hit of length L needs the full group from the start and the window group only at the end.
TEST(KvBlocks, HitsAcrossGroups) {
  KvBlocks kv({Full(8), Window(8, 5)}, true);
  const Tokens tokens = Count(21);
  SequenceBlocks a;
  kv.Open({}, true, &a);
  ASSERT_TRUE(kv.Grow(&a, 16));
  kv.Publish(tokens, 16, &a);
  kv.LetGo(&a, 16, 0);
  ASSERT_EQ(kv.pool(1).cached(), 3);
  kv.Close(&a, 0);
  SequenceBlocks b;
  kv.Open({}, true, &b);
  EXPECT_EQ(kv.Match(tokens, 20, &b), 16);
  EXPECT_EQ(b.groups[0].held, 4);
  EXPECT_EQ(b.groups[1].held, 1);  // a query at 16 reads 12..16
  EXPECT_EQ(b.groups[1].table[2], -1);
  kv.Close(&b, 0);
  EXPECT_EQ(kv.Match({}, 0, &b), 0);
  const SequenceBlocks* open[] = {&b};
  kv.CheckInvariants(open);
}

TEST(KvBlocks, AMissingWindowBlockShortensTheHit) {
  KvBlocks kv({Full(8), Window(4, 5)}, true);
  const Tokens tokens = Count(17);
  Warm(&kv, {}, Tokens(tokens.begin(), tokens.begin() + 16));
  SequenceBlocks other;
  kv.Open({}, false, &other);
  ASSERT_TRUE(kv.Grow(&other, 4));  // evicts block 3 of the window group, but none of the full
  SequenceBlocks b;
  kv.Open({}, true, &b);
  EXPECT_EQ(kv.Match(tokens, 16, &b), 12);
  EXPECT_EQ(b.groups[1].first_held, 2);
}

TEST(KvBlocks, AForkSharesWholeBlocksAndCopiesTheLast) {
  KvBlocks kv({Full(8)}, true);
  SequenceBlocks a, b;
  std::vector<Copy> copies;
  kv.Open({}, true, &a);
  kv.Open({}, true, &b);
  ASSERT_TRUE(kv.Grow(&a, 11));
  ASSERT_TRUE(kv.Fork(a, 10, 7, &b, &copies));
  ASSERT_EQ(copies.size(), 1u);
  EXPECT_EQ(copies[0].source, a.groups[0].table[2]);
  EXPECT_EQ(copies[0].destination, b.groups[0].table[2]);
  EXPECT_EQ(kv.pool(0).references(a.groups[0].table[0]), 2);
  EXPECT_EQ(kv.pool(0).references(b.groups[0].table[2]), 1);
  // The source outlives its owner until the step that copies has retired.
  const int32_t source = a.groups[0].table[2];
  kv.Close(&a, 6);
  kv.Retire(6);
  EXPECT_EQ(kv.pool(0).references(source), 1);
  const SequenceBlocks* open[] = {&b};
  kv.CheckInvariants(open);
  kv.Retire(7);
  EXPECT_EQ(kv.pool(0).references(source), 0);
  EXPECT_EQ(kv.pool(0).referenced(), 3);
}

// A pending block that another sequence holds will not come free with its step.
TEST(KvBlocks, ABlockThatASiblingHoldsIsNotSoonFree) {
  KvBlocks kv({Full(2)}, true);
  SequenceBlocks a, b;
  std::vector<Copy> copies;
  kv.Open({}, true, &a);
  kv.Open({}, true, &b);
  ASSERT_TRUE(kv.Grow(&a, 8));
  ASSERT_TRUE(kv.Fork(a, 8, 5, &b, &copies));
  const int32_t need[] = {1};
  kv.Close(&a, 5);
  EXPECT_FALSE(kv.Covers(need, true));
  kv.Close(&b, 0);  // now the pending step is the only owner
  EXPECT_FALSE(kv.Covers(need, false));
  EXPECT_TRUE(kv.Covers(need, true));
}

TEST(KvBlocks, AForkAtABlockBorderCopiesNothing) {
  KvBlocks kv({Full(8)}, true);
  SequenceBlocks a, b;
  std::vector<Copy> copies;
  kv.Open({}, true, &a);
  kv.Open({}, true, &b);
  ASSERT_TRUE(kv.Grow(&a, 9));
  ASSERT_TRUE(kv.Fork(a, 8, 1, &b, &copies));
  EXPECT_TRUE(copies.empty());
  EXPECT_EQ(b.groups[0].table.size(), 2u);
}

TEST(KvBlocks, AForkIsRefusedWhereTheParentsWindowMovedOn) {
  KvBlocks kv({Full(8), Window(8, 5)}, true);
  SequenceBlocks a, b;
  std::vector<Copy> copies;
  kv.Open({}, true, &a);
  kv.Open({}, true, &b);
  ASSERT_TRUE(kv.Grow(&a, 20));
  kv.LetGo(&a, 19, 0);
  EXPECT_FALSE(kv.Fork(a, 9, 1, &b, &copies));
  EXPECT_TRUE(copies.empty());
  EXPECT_TRUE(kv.Fork(a, 17, 1, &b, &copies));
  EXPECT_EQ(copies.size(), 2u);
  const SequenceBlocks* open[] = {&a, &b};
  kv.CheckInvariants(open);
}

TEST(KvBlocks, KernelBlocksAreSlicesOfCacheBlocks) {
  KvBlocks kv({Full(8, 2)}, false);
  SequenceBlocks a;
  kv.Open({}, true, &a);
  ASSERT_TRUE(kv.Grow(&a, 7));
  std::vector<int32_t> ids;
  EXPECT_EQ(kv.TellKernelTable(&a, 0, 5, &ids), 0);
  const int32_t b0 = a.groups[0].table[0], b1 = a.groups[0].table[1];
  EXPECT_EQ(ids, (Tokens{2 * b0, 2 * b0 + 1, 2 * b1}));
}

TEST(KvBlocks, ATableIsToldOnceUntilItIsClosed) {
  KvBlocks kv({Full(8), Full(8, 2)}, false);
  SequenceBlocks a;
  std::vector<int32_t> ids;
  for (int round = 0; round < 2; ++round) {
    kv.Open({}, true, &a);
    ASSERT_TRUE(kv.Grow(&a, 13));
    const Tokens& table = a.groups[1].table;
    ids.clear();
    EXPECT_EQ(kv.TellKernelTable(&a, 1, 5, &ids), 0);
    EXPECT_EQ(ids, (Tokens{2 * table[0], 2 * table[0] + 1, 2 * table[1]}));
    ids.clear();
    EXPECT_EQ(kv.TellKernelTable(&a, 1, 6, &ids), 3);
    EXPECT_EQ(kv.TellKernelTable(&a, 1, 3, &ids), 3) << "drafts were rejected";
    EXPECT_TRUE(ids.empty());
    EXPECT_EQ(kv.TellKernelTable(&a, 1, 9, &ids), 3);
    EXPECT_EQ(ids, (Tokens{2 * table[1] + 1, 2 * table[2]}));
    EXPECT_EQ(kv.TellKernelTable(&a, 0, 13, &ids), 0) << "each group for itself";
    kv.Close(&a, 0);
  }
}

// Blocks of states span two of the other group's.
TEST(KvBlocks, AStateIsSharedWhereItsBlockEnds) {
  KvBlocks kv({Full(8), {batch::KvKind::kState, 8, 8, 0, 4}}, true);
  SequenceBlocks a, b;
  kv.Open({}, true, &a);
  ASSERT_TRUE(kv.Grow(&a, 8));
  kv.Publish(Count(8), 8, &a);
  const int32_t snapshot = a.groups[1].table[0];
  kv.LetGo(&a, 8, 1);
  EXPECT_EQ(a.groups[1].held, 1) << "the step behind the border reads it";
  ASSERT_TRUE(kv.Grow(&a, 12));
  EXPECT_EQ(a.groups[1].table.size(), 2u);
  kv.LetGo(&a, 12, 1);
  EXPECT_EQ(a.groups[1].held, 1);
  kv.Publish(Count(12), 12, &a);
  kv.Retire(1);
  EXPECT_EQ(kv.pool(1).cached(), 1);
  kv.Open({}, true, &b);
  EXPECT_EQ(kv.Match(Count(16), 15, &b), 8) << "12 tokens are known, but no state behind them";
  EXPECT_EQ(b.groups[0].held, 2);
  EXPECT_EQ(b.groups[1].table, (Tokens{snapshot}));
  ASSERT_TRUE(kv.Grow(&b, 9));
  EXPECT_NE(b.groups[1].table[1], snapshot) << "a snapshot is not written";
  std::vector<int32_t> ids;
  EXPECT_EQ(kv.TellKernelTable(&b, 1, 9, &ids), 0);
  EXPECT_EQ(ids, (Tokens{snapshot, b.groups[1].table[1]}));
  const SequenceBlocks* open[] = {&a, &b};
  kv.CheckInvariants(open);
}

// The running state of the parent is that behind its newest token.
TEST(KvBlocks, AStateIsNotForkedWithinABlock) {
  KvBlocks kv({Full(8), {batch::KvKind::kState, 8, 8, 0, 4}}, true);
  SequenceBlocks a, b;
  std::vector<Copy> copies;
  kv.Open({}, true, &a);
  kv.Open({}, true, &b);
  ASSERT_TRUE(kv.Grow(&a, 6));
  EXPECT_FALSE(kv.Fork(a, 5, 1, &b, &copies));
  EXPECT_TRUE(copies.empty());
}

TEST(KvGroup, AStepEndsWhereAStateBlockDoes) {
  const batch::KvGroup groups[] = {Full(8), {batch::KvKind::kState, 8, 8, 0, 4}};
  EXPECT_EQ(batch::StepEnd(groups, 0, 20), 8);
  EXPECT_EQ(batch::StepEnd(groups, 7, 20), 8);
  EXPECT_EQ(batch::StepEnd(groups, 8, 20), 16);
  EXPECT_EQ(batch::StepEnd(groups, 8, 12), 12);
  EXPECT_EQ(batch::StepEnd({groups, 1}, 0, 20), 20);
}

TEST(KvGroup, BlocksOfStatesAreAMultipleOfTheOthers) {
  const auto code = [](batch::KvGroup state) {
    const batch::KvGroup groups[] = {state, Full(4)};
    return batch::Validate(groups).code();
  };
  EXPECT_EQ(code({batch::KvKind::kState, 4096, 4096, 0, 2}), StatusCode::kOk);
  EXPECT_EQ(code({batch::KvKind::kState, 6, 6, 0, 2}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code({batch::KvKind::kState, 8, 4, 0, 2}), StatusCode::kInvalidArgument);
}

TEST(KvBlocks, ClearingForgetsWhatNobodyUses) {
  KvBlocks kv({Full(8)}, true);
  Warm(&kv, {}, Count(8));
  Warm(&kv, {.salt = "x"}, Count(8));
  SequenceBlocks b;
  kv.Open({}, true, &b);
  ASSERT_EQ(kv.Match(Count(9), 8, &b), 8);
  EXPECT_EQ(kv.ClearCache(), 2);
  EXPECT_EQ(kv.pool(0).free(), 6);
  const SequenceBlocks* open[] = {&b};
  kv.CheckInvariants(open);
  kv.Close(&b, 0);
  EXPECT_EQ(kv.ClearCache(), 2);
  EXPECT_EQ(kv.tree().live_nodes(), 0);
}

// Two sequences that computed the same prompt at once: one block each stays cached, the other is
// free, and the second sequence goes on feeding the same branch.
TEST(KvBlocks, DuplicatesAreNotCachedTwice) {
  KvBlocks kv({Full(8)}, true);
  SequenceBlocks a, b;
  kv.Open({}, true, &a);
  kv.Open({}, true, &b);
  ASSERT_TRUE(kv.Grow(&a, 4) && kv.Grow(&b, 8));
  kv.Publish(Count(4), 4, &a);
  kv.Publish(Count(8), 8, &b);
  kv.Close(&a, 0);
  kv.Close(&b, 0);
  EXPECT_EQ(kv.pool(0).cached(), 2);
  EXPECT_EQ(kv.pool(0).free(), 6);
  SequenceBlocks c;
  kv.Open({}, true, &c);
  EXPECT_EQ(kv.Match(Count(9), 8, &c), 8);
}

}  // namespace
}  // namespace sluice::blocks
