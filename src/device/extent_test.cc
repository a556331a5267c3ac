#include "device/extent.h"

#include <gtest/gtest.h>

namespace sluice::device {
namespace {

struct Shape {
  Extent<unsigned> grid, block;
};

TEST(ExtentTest, WhatIsNotNamedIsOne) {
  const Shape shape = {.grid = {7, 5}, .block = {3}};
  EXPECT_EQ(shape.grid[0], 7u);
  EXPECT_EQ(shape.grid[1], 5u);
  EXPECT_EQ(shape.grid[2], 1u);
  EXPECT_EQ(shape.block[1], 1u);
  EXPECT_EQ(shape.block[2], 1u);
  EXPECT_FALSE(shape.grid.empty());
  EXPECT_FALSE(Shape().grid.empty());
}

TEST(ExtentTest, AZeroThatIsNamedStaysZero) {
  Extent<size_t> extent;
  for (size_t i = 0; i < 3; ++i) {
    extent = {};
    extent[i] = 0;
    EXPECT_TRUE(extent.empty()) << i;
  }
}

}  // namespace
}  // namespace sluice::device
