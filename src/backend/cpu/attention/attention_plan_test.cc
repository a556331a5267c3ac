#include <gtest/gtest.h>

#include "backend/cpu/attention/attention.h"

namespace sluice::cpu {
namespace {

constexpr AttentionTiling kF32 = {.rows = 192, .rows_small = 12};
constexpr AttentionTiling kBf16 = {.rows = 384, .rows_small = 16, .rows_step = 16};

// Arguments: tiling, query tokens, sequences, KV heads, group, splits, threads.
TEST(AttentionPlanTest, OneSequenceDecodingBehindALongContextGoesBySplit) {
  EXPECT_TRUE(PlanAttention(kF32, 1, 1, 3, 3, 8, 2).by_split);
  EXPECT_FALSE(PlanAttention(kF32, 1, 1, 3, 3, 1, 2).by_split) << "nothing to split";
  EXPECT_FALSE(PlanAttention(kF32, 1, 1, 3, 3, 8, 1).by_split) << "no thread to share with";
}

TEST(AttentionPlanTest, ManySequencesOrALongPromptFillTheThreadsByTiles) {
  EXPECT_FALSE(PlanAttention(kF32, 32, 32, 3, 3, 8, 2).by_split);
  EXPECT_FALSE(PlanAttention(kF32, 512, 1, 3, 3, 2, 2).by_split);
}

TEST(AttentionPlanTest, TilesShrinkForShortPromptsAndStayBounded) {
  EXPECT_EQ(PlanAttention(kF32, 2048, 1, 3, 3, 8, 2).tile_tokens, 64);
  EXPECT_LT(PlanAttention(kF32, 20, 1, 3, 3, 1, 4).tile_tokens, 16);
  EXPECT_EQ(PlanAttention(kF32, 2048, 1, 1, 71, 8, 2).tile_tokens, 2);
  EXPECT_GE(PlanAttention(kF32, 0, 0, 1, 1, 0, 1).tile_tokens, 1);
}

TEST(AttentionPlanTest, TilesFillTheirLastSixteenRows) {
  EXPECT_EQ(PlanAttention(kBf16, 2048, 1, 3, 3, 8, 2).tile_tokens, 128);
  EXPECT_EQ(PlanAttention(kBf16, 2048, 1, 8, 4, 8, 2).tile_tokens, 96);
  EXPECT_EQ(PlanAttention(kBf16, 100, 1, 3, 3, 1, 2).tile_tokens % 16, 0);
  EXPECT_EQ(PlanAttention(kBf16, 100, 1, 2, 7, 1, 2).tile_tokens % 16, 0);
  EXPECT_EQ(PlanAttention(kBf16, 2048, 1, 1, 71, 8, 2).tile_tokens, 5);
  EXPECT_EQ(PlanAttention(kBf16, 2048, 1, 1, 512, 8, 2).tile_tokens, 1);
  EXPECT_EQ(PlanAttention(kBf16, 1, 1, 3, 3, 8, 2).tile_tokens, 1);
}

}  // namespace
}  // namespace sluice::cpu
