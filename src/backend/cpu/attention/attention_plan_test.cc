#include <gtest/gtest.h>

#include "backend/cpu/attention/attention.h"

namespace sluice::cpu {
namespace {

// Arguments: query tokens, sequences, KV heads, group, splits, threads.
TEST(AttentionPlanTest, OneSequenceDecodingBehindALongContextGoesBySplit) {
  EXPECT_TRUE(PlanAttention(1, 1, 3, 3, 8, 2).by_split);
  EXPECT_FALSE(PlanAttention(1, 1, 3, 3, 1, 2).by_split) << "nothing to split";
  EXPECT_FALSE(PlanAttention(1, 1, 3, 3, 8, 1).by_split) << "no thread to share with";
}

TEST(AttentionPlanTest, ManySequencesOrALongPromptFillTheThreadsByTiles) {
  EXPECT_FALSE(PlanAttention(32, 32, 3, 3, 8, 2).by_split);
  EXPECT_FALSE(PlanAttention(512, 1, 3, 3, 2, 2).by_split);
}

TEST(AttentionPlanTest, TilesShrinkForShortPromptsAndStayBounded) {
  EXPECT_EQ(PlanAttention(2048, 1, 3, 3, 8, 2).tile_tokens, 16);
  EXPECT_LT(PlanAttention(20, 1, 3, 3, 1, 4).tile_tokens, 16);
  EXPECT_EQ(PlanAttention(2048, 1, 1, 71, 8, 2).tile_tokens, 1);
  EXPECT_GE(PlanAttention(0, 0, 1, 1, 0, 1).tile_tokens, 1);
}

}  // namespace
}  // namespace sluice::cpu
