#include "backend/cuda/recurrent/config.h"

#include <gtest/gtest.h>

namespace sluice::cuda {
namespace {

TEST(RecurrentConfigTest, ALaneHoldsTheLeastThatHasAKernel) {
  EXPECT_EQ(GatedDeltaRows(1), 8);
  EXPECT_EQ(GatedDeltaRows(32), 8);
  EXPECT_EQ(GatedDeltaRows(33), 16);
  EXPECT_EQ(GatedDeltaRows(128), 32);
  EXPECT_EQ(GatedDeltaRows(256), 64);
  EXPECT_EQ(GatedDeltaRows(257), 0);
}

TEST(RecurrentConfigTest, EveryColumnHeadAndSequenceHasABlock) {
  ops::GatedDelta::Desc desc = {
      .k_heads = 16, .v_heads = 32, .k_head_dim = 128, .v_head_dim = 128, .block_tokens = 64};
  const LaunchShape shape = GatedDeltaShape(desc, 5);
  EXPECT_EQ(shape.grid[0], 8u);
  EXPECT_EQ(shape.grid[1], 32u);
  EXPECT_EQ(shape.grid[2], 5u);
  EXPECT_EQ(shape.block[0], 64u);
  desc.v_head_dim = 17;
  EXPECT_EQ(GatedDeltaShape(desc, 5).grid[0], 2u);
  EXPECT_EQ(GatedDeltaShape(desc, 0).grid[2], 0u);
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
  EXPECT_FALSE(ShortConvSupports({.channels = 9000000, .block_tokens = 1}, facts).ok);
  EXPECT_TRUE(ShortConvSupports({.channels = 8192, .block_tokens = 1}, facts).ok);
}

}  // namespace
}  // namespace sluice::cuda
