#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "text/tokenizer_merges.h"
#include "text/tokenizer_vocabulary.h"

namespace sluice::text {
namespace {

constexpr HashSeed kOne = {.text = 0x243F6A8885A308D3u, .state = 0x13198A2E03707345u, .end = 7};
constexpr HashSeed kOther = {.text = 0xA4093822299F31D0u, .state = 0x082EFA98EC4E6C89u, .end = 9};
constexpr size_t kEntries = 2000;
// Slots of a table for so many, of which those below a hash mask of zeros are crowded together.
constexpr uint64_t kCrowd = 0xFC0;
// What chance alone does to a table that is half full.
constexpr size_t kProbeMax = 40;

// As a file would hold them whose writer knows the program but not the seed.
std::vector<std::string> CollidingPieces() {
  std::vector<std::string> pieces;
  for (uint32_t i = 0; pieces.size() < kEntries; ++i) {
    std::string piece = std::to_string(i);
    if ((HashText(piece, kOne) & kCrowd) == 0) pieces.push_back(std::move(piece));
  }
  return pieces;
}

TEST(VocabularyTest, PiecesThatCollideUnderOneSeedAreSpreadByAnother) {
  const std::vector<std::string> pieces = CollidingPieces();
  const auto fill = [&](Vocabulary vocabulary) {
    for (size_t i = 0; i < pieces.size(); ++i) {
      EXPECT_TRUE(vocabulary.Insert(pieces[i], static_cast<int32_t>(i)));
      EXPECT_FALSE(vocabulary.Insert(pieces[i], 0));
    }
    return vocabulary;
  };
  EXPECT_GT(fill(Vocabulary(kEntries, kOne)).LongestProbe(), kEntries / 2);
  EXPECT_LT(fill(Vocabulary(kEntries, kOther)).LongestProbe(), kProbeMax);
  const Vocabulary usual = fill(Vocabulary(kEntries));
  EXPECT_LT(usual.LongestProbe(), 4 * kProbeMax);
  for (size_t i = 0; i < pieces.size(); ++i) {
    ASSERT_EQ(usual.Find(pieces[i]), static_cast<int32_t>(i));
  }
  EXPECT_EQ(usual.Find("absent"), Vocabulary::kNone);
}

TEST(MergeTableTest, PairsThatCollideUnderOneSeedAreSpreadByAnother) {
  std::vector<std::pair<int32_t, int32_t>> pairs;
  for (int32_t left = 0; pairs.size() < kEntries; ++left) {
    for (int32_t right = 0; right < 1000 && pairs.size() < kEntries; ++right) {
      const uint64_t pair = static_cast<uint64_t>(left) << 32 | static_cast<uint64_t>(right);
      if ((HashWord(pair, kOne) & kCrowd) == 0) pairs.emplace_back(left, right);
    }
  }
  const auto fill = [&](MergeTable merges) {
    for (size_t i = 0; i < pairs.size(); ++i) {
      merges.Insert(pairs[i].first, pairs[i].second, static_cast<uint32_t>(i), 7);
    }
    return merges;
  };
  EXPECT_GT(fill(MergeTable(kEntries, kOne)).LongestProbe(), kEntries / 2);
  EXPECT_LT(fill(MergeTable(kEntries, kOther)).LongestProbe(), kProbeMax);
  MergeTable usual = fill(MergeTable(kEntries));
  EXPECT_LT(usual.LongestProbe(), 4 * kProbeMax);
  for (size_t i = 0; i < pairs.size(); ++i) {
    ASSERT_EQ(usual.Find(pairs[i].first, pairs[i].second).rank, i);
  }
  EXPECT_EQ(usual.Find(1 << 30, 1).rank, Merge::kNoRank);
  // The last of equal pairs counts.
  usual.Insert(pairs[5].first, pairs[5].second, 99, 8);
  EXPECT_EQ(usual.Find(pairs[5].first, pairs[5].second).rank, 99u);
  EXPECT_EQ(usual.Find(pairs[5].first, pairs[5].second).id, 8);
}

}  // namespace
}  // namespace sluice::text
