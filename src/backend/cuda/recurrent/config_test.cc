#include "backend/cuda/recurrent/config.h"

#include <gtest/gtest.h>

namespace sluice::cuda {
namespace {

TEST(RecurrentConfigTest, ALaneHoldsTheLeastThatHasAKernel) {
  EXPECT_EQ(StateRows(1), 8);
  EXPECT_EQ(StateRows(32), 8);
  EXPECT_EQ(StateRows(33), 16);
  EXPECT_EQ(StateRows(128), 32);
  EXPECT_EQ(StateRows(256), 64);
  EXPECT_EQ(StateRows(257), 0);
}

TEST(RecurrentConfigTest, EveryColumnHeadAndSequenceHasABlock) {
  const LaunchShape shape = StateShape(32, 128, 5);
  EXPECT_EQ(shape.grid[0], 8u);
  EXPECT_EQ(shape.grid[1], 32u);
  EXPECT_EQ(shape.grid[2], 5u);
  EXPECT_EQ(shape.block[0], 64u);
  EXPECT_EQ(StateShape(32, 17, 5).grid[0], 2u);
  EXPECT_EQ(StateShape(32, 17, 0).grid[2], 0u);
}

TEST(RecurrentConfigTest, EveryChannelHasAThread) {
  const LaunchShape shape = ShortConvShape(7, 129);
  EXPECT_EQ(shape.grid[0], 7u);
  EXPECT_EQ(shape.grid[1], 2u);
  EXPECT_EQ(shape.block[0], 128u);
}

TEST(RecurrentConfigTest, WhatFitsNoRegistersOrNoGridIsDeclined) {
  const device::DeviceFacts facts;
  const ops::GatedDelta::Desc wide = {
      .k_heads = 1, .v_heads = 1, .k_head_dim = 257, .v_head_dim = 8, .block_tokens = 1};
  EXPECT_EQ(GatedDeltaSupports(wide, facts).reason, "k_head_dim is 257, above 256");
  const ops::GatedDelta::Desc many = {
      .k_heads = 1, .v_heads = 70000, .k_head_dim = 8, .v_head_dim = 8, .block_tokens = 1};
  EXPECT_EQ(GatedDeltaSupports(many, facts).reason, "has 70000 value heads, above 65535");
  EXPECT_EQ(
      SsdSupports({.k_heads = 1, .v_heads = 1, .k_head_dim = 300, .v_head_dim = 8}, facts).reason,
      "k_head_dim is 300, above 256");
  EXPECT_FALSE(ShortConvSupports({.channels = 9000000, .block_tokens = 1}, facts).ok);
  EXPECT_TRUE(ShortConvSupports({.channels = 8192, .block_tokens = 1}, facts).ok);
}

TEST(RecurrentConfigTest, AScanHoldsTheStateOfAChannelAndDeclinesAWiderOne) {
  EXPECT_EQ(ScanSize(1), 16);
  EXPECT_EQ(ScanSize(16), 16);
  EXPECT_EQ(ScanSize(17), 64);
  EXPECT_EQ(ScanSize(65), 0);
  const LaunchShape shape = SelectiveScanShape(130, 3);
  EXPECT_EQ(shape.grid[0], 3u);
  EXPECT_EQ(shape.grid[1], 3u);
  device::DeviceFacts facts;
  EXPECT_EQ(SelectiveScanSupports({.channels = 8, .state_size = 65}, facts).reason,
            "state_size is 65, above 64");
}

}  // namespace
}  // namespace sluice::cuda
