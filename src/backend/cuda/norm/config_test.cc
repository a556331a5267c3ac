#include "backend/cuda/norm/config.h"

#include <gtest/gtest.h>

namespace sluice::cuda {
namespace {

TEST(NormShapeTest, ThreadsAreWholeWarpsAndFollowFromTheRowAlone) {
  EXPECT_EQ(NormShape(1, 1).block[0], 32u);
  EXPECT_EQ(NormShape(1, 256).block[0], 32u);
  EXPECT_EQ(NormShape(1, 257).block[0], 64u);
  EXPECT_EQ(NormShape(1, 576).block[0], 96u);
  EXPECT_EQ(NormShape(1, 4096).block[0], 512u);
  EXPECT_EQ(NormShape(1, 1 << 20).block[0], 512u);
  EXPECT_EQ(NormShape(7, 576).block[0], NormShape(1, 576).block[0]);
}

TEST(NormShapeTest, EveryTokenHasABlock) {
  EXPECT_EQ(NormShape(0, 64).grid[0], 0u);
  EXPECT_EQ(NormShape(100, 64).grid[0], 100u);
}

}  // namespace
}  // namespace sluice::cuda
