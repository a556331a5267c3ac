#include "cli/bench_rate.h"

#include <gtest/gtest.h>

namespace sluice::cli {
namespace {

// Two sequences, a step each 1000 us, both drawing from 1000 on.
const std::vector<DrawnTokens> kSteps = {{1000, 1}, {1000, 1}, {2000, 1}, {2000, 1},
                                         {3000, 1}, {3000, 1}, {4000, 1}, {4000, 1}};

TEST(TokenRateTest, CountsWholeStepsBehindTheStart) {
  EXPECT_DOUBLE_EQ(TokenRate(kSteps, 1000, 4), 2000);
  EXPECT_DOUBLE_EQ(TokenRate(kSteps, 1000, 3), 2000);
  EXPECT_DOUBLE_EQ(TokenRate(kSteps, 1000, 100), 2000);
}

TEST(TokenRateTest, TheOrderInWhichEventsComeChangesNothing) {
  std::vector<DrawnTokens> late(kSteps.rbegin(), kSteps.rend());
  EXPECT_DOUBLE_EQ(TokenRate(late, 1000, 4), 2000);
}

TEST(TokenRateTest, NoStepHasNoRate) {
  EXPECT_EQ(TokenRate({}, 0, 4), 0);
  EXPECT_EQ(TokenRate({{1000, 1}}, 1000, 4), 0);
}

}  // namespace
}  // namespace sluice::cli
