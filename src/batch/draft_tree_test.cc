#include "batch/draft_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace sluice::batch {
namespace {

using ::testing::ElementsAre;
using Parents = std::vector<int32_t>;

TEST(DraftTree, EachFollowsAnEarlierOne) {
  EXPECT_TRUE(IsTree({}));
  EXPECT_TRUE(IsTree(Parents{0, 0, 0}));
  EXPECT_TRUE(IsTree(Parents{0, 1, 2, 1, 0, 5}));
  EXPECT_FALSE(IsTree(Parents{1}));
  EXPECT_FALSE(IsTree(Parents{0, -1}));
  EXPECT_TRUE(IsTree(Parents(limits::kDraftTokensMax, 0)));
  EXPECT_FALSE(IsTree(Parents(limits::kDraftTokensMax + 1, 0)));
}

TEST(DraftTree, TheFirstBranchEndsWhereADraftFollowsAnotherThanTheOneBefore) {
  EXPECT_EQ(FirstBranch({}), 0);
  EXPECT_EQ(FirstBranch(Parents{0, 1, 2}), 3);
  EXPECT_EQ(FirstBranch(Parents{0, 1, 2, 1, 4}), 3);
  EXPECT_EQ(FirstBranch(Parents{0, 0, 2}), 1);
}

TEST(DraftTree, OfDepthsTheFirstBranchAloneHasItsNumber) {
  const Parents parents = {0, 1, 2, 1, 0, 5, 6, 0};
  EXPECT_THAT(Depths(parents), ElementsAre(0, 1, 2, 3, 2, 1, 2, 3, 1));
  const DraftDepths depths = Depths(parents);
  for (int32_t i = 0; i < 9; ++i) EXPECT_EQ(depths[i] == i, i <= FirstBranch(parents)) << i;
}

}  // namespace
}  // namespace sluice::batch
