#include "device/ceilings.h"

#include <gtest/gtest.h>

namespace sluice::device {
namespace {

TEST(Spread, IsTheMedianBetweenTheLowestAndTheHighest) {
  const Spread odd = SpreadOf({5, 1, 3});
  EXPECT_EQ(odd.median, 3);
  EXPECT_EQ(odd.min, 1);
  EXPECT_EQ(odd.max, 5);
  EXPECT_EQ(SpreadOf({4, 1, 2, 10}).median, 3);
  EXPECT_EQ(SpreadOf({7}).median, 7);
}

}  // namespace
}  // namespace sluice::device
