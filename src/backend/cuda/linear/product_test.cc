// Which kernels a product goes to: one choice by shapes. Needs no GPU.
#include "backend/cuda/linear/product.h"

#include <gtest/gtest.h>

#include "backend/cuda/linear/block_wgmma.h"

namespace sluice::cuda {
namespace {

constexpr int kUnits = 132;  // multiprocessors of an H200

LinearShape Shape(int64_t m) { return {.m = m, .n = 4096, .k = 4096, .compute_units = kUnits}; }

ProductChoice Choose(DType weight, int64_t m, bool warpgroups = true,
                     LinearArithmetic arithmetic = LinearArithmetic::kBf16) {
  return ChooseProduct(arithmetic, weight, Shape(m), warpgroups);
}

TEST(ProductChoice, ManyTokensOfBlockFormatsGoToWarpgroupsAndAreNotPlannedAsFew) {
  for (DType weight : {DType::kQ4_0, DType::kQ4_K, DType::kQ6_K, DType::kQ8_0}) {
    const ProductChoice choice = Choose(weight, 4096);
    EXPECT_TRUE(choice.warpgroups) << Name(weight);
    EXPECT_EQ(choice.plan.kernel, nullptr) << Name(weight);
    EXPECT_EQ(choice.plan.token_blocks, 0u) << Name(weight);
    // Their sums are those of the kernels for few tokens, so k is split alike.
    const ProductChoice few = Choose(weight, 1);
    EXPECT_GT(choice.plan.units_per_slice, 0) << Name(weight);
    EXPECT_EQ(choice.plan.units_per_slice, few.plan.units_per_slice) << Name(weight);
    EXPECT_EQ(choice.plan.units, few.plan.units) << Name(weight);
  }
}

// The choice is where the kernels' own sizes say that they are faster, and nowhere else.
TEST(ProductChoice, FollowsWhatSuitsWarpgroups) {
  for (int64_t m = 1; m <= 4096; m += m < 300 ? 1 : 97) {
    const ProductChoice choice = Choose(DType::kQ4_K, m);
    EXPECT_EQ(choice.warpgroups, SuitsBlockWgmma(Shape(m))) << m;
    EXPECT_EQ(choice.plan.kernel == nullptr, choice.warpgroups) << m;
    ASSERT_NE(choice.family, nullptr) << m;
  }
}

TEST(ProductChoice, WhatWarpgroupsCannotReadOrMultiplyIsPlanned) {
  EXPECT_NE(Choose(DType::kQ4_K, 4096, /*warpgroups=*/false).plan.kernel, nullptr);
  EXPECT_NE(Choose(DType::kQ4_K, 4096, true, LinearArithmetic::kExact).plan.kernel, nullptr);
  ASSERT_EQ(BlockWgmmaFunction(DType::kBF16), nullptr);
  EXPECT_NE(Choose(DType::kBF16, 4096).plan.kernel, nullptr);
}

}  // namespace
}  // namespace sluice::cuda
