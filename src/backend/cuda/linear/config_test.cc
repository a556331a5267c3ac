#include "backend/cuda/linear/config.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "base/dtype.h"

namespace sluice::cuda {
namespace {

constexpr int kUnits = 132;  // multiprocessors of an H200
constexpr int kSharedMax = 227 << 10;

const LinearFamily& Family(LinearArithmetic arithmetic, DType weight) {
  const LinearFamily* family = FindLinearFamily(arithmetic, weight);
  EXPECT_NE(family, nullptr) << Name(weight);
  return *family;
}

LinearPlan Plan(DType weight, int64_t m, int64_t n, int64_t k) {
  return PlanLinear(Family(LinearArithmetic::kExact, weight), weight,
                    {.m = m, .n = n, .k = k, .compute_units = kUnits});
}

// Integers are no weights. The codebooks of GGUF are refused at load, as are its ternary formats;
// NVFP4 is widened to BF16.
constexpr DType kWithoutKernels[] = {
    DType::kI8,      DType::kI32,   DType::kI64,     DType::kU8,     DType::kIQ4_XS,
    DType::kIQ3_XXS, DType::kIQ3_S, DType::kIQ2_XXS, DType::kIQ2_XS, DType::kIQ2_S,
    DType::kIQ1_S,   DType::kIQ1_M, DType::kTQ1_0,   DType::kTQ2_0,  DType::kNVFP4};

TEST(LinearConfig, EveryOtherWeightFormatHasExactKernels) {
  int formats = 0;
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto weight = static_cast<DType>(i);
    const LinearFamily* family = FindLinearFamily(LinearArithmetic::kExact, weight);
    EXPECT_EQ(family == nullptr, std::ranges::count(kWithoutKernels, weight) == 1) << Name(weight);
    if (family == nullptr) continue;
    ++formats;
    EXPECT_EQ(family->any.function != nullptr, !IsQuantized(weight)) << Name(weight);
  }
  EXPECT_EQ(formats, 16);
}

// A choice that leaves outputs without a block, or gives a block more memory than it can have,
// fails here and not on a GPU.
TEST(LinearConfig, BlocksCoverAllOutputsAndFitSharedMemory) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto weight = static_cast<DType>(i);
    for (auto arithmetic :
         {LinearArithmetic::kBf16, LinearArithmetic::kF16, LinearArithmetic::kExact}) {
      const LinearFamily* family = FindLinearFamily(arithmetic, weight);
      if (family == nullptr) continue;
      for (int64_t m : {1, 2, 8, 9, 16, 17, 32, 33, 64, 65, 127, 512, 2048, 100000}) {
        for (int64_t n : {1, 15, 16, 17, 576, 4096, 28672, 128256}) {
          const LinearPlan plan =
              PlanLinear(*family, weight, {.m = m, .n = n, .k = 768, .compute_units = kUnits});
          ASSERT_NE(plan.kernel, nullptr);
          EXPECT_GE(int64_t{plan.token_blocks} * plan.kernel->tokens, m);
          EXPECT_LT(int64_t{plan.token_blocks - 1} * plan.kernel->tokens, m);
          EXPECT_GE(int64_t{plan.row_blocks} * plan.kernel->rows, n);
          EXPECT_LT(int64_t{plan.row_blocks - 1} * plan.kernel->rows, n);
          EXPECT_LE(plan.kernel->shared_bytes, kSharedMax) << plan.kernel->function;
          EXPECT_LE(plan.row_blocks, 65535u);
        }
      }
    }
  }
}

// Nobody knows how rows are shared out when a graph is captured, so every sharing out must fit.
TEST(LinearConfig, BlocksOfGroupedProductsCoverEverySharingOut) {
  const LinearFamily& family = Family(LinearArithmetic::kBf16, DType::kBF16);
  for (const int64_t m : {1, 2, 8, 100, 128, 1000, 4096, 65536}) {
    for (const int experts : {1, 4, 128, 1024}) {
      const LinearPlan plan =
          PlanLinear(family, DType::kBF16,
                     {.m = m, .n = 1536, .k = 2048, .compute_units = kUnits, .experts = experts});
      const int64_t tokens = plan.kernel->tokens;
      // The worst: all but one expert have one row, or one more than whole blocks.
      const int64_t served = std::min<int64_t>(m, experts);
      const int64_t one_each = served - 1 + (m - served + 1 + tokens - 1) / tokens;
      EXPECT_GE(int64_t{plan.token_blocks}, one_each) << m << " rows, " << experts << " experts";
      const int64_t one_more = m / (tokens + 1);
      if (one_more <= experts) {
        EXPECT_GE(int64_t{plan.token_blocks}, 2 * one_more);
      }
      EXPECT_LE(int64_t{plan.token_blocks}, served + m / tokens);
    }
  }
}

TEST(LinearConfig, ExpertsWithFewRowsStreamAndThoseWithManyAreTiled) {
  const auto tokens_of = [](int64_t places) {
    return PlanLinear(Family(LinearArithmetic::kBf16, DType::kBF16), DType::kBF16,
                      {.m = places, .n = 1536, .k = 2048, .compute_units = kUnits, .experts = 128})
        .kernel->tokens;
  };
  EXPECT_EQ(tokens_of(8), 8);      // one sequence, eight experts
  EXPECT_EQ(tokens_of(1024), 8);   // 128 sequences
  EXPECT_EQ(tokens_of(2048), 16);  // 256
  EXPECT_EQ(tokens_of(16384), 64);
}

// The sum over k is split alike for every m: else a row's bits would depend on its neighbours.
TEST(LinearConfig, SlicesDependOnKAlone) {
  for (DType weight : {DType::kBF16, DType::kQ4_1, DType::kQ6_K}) {
    for (int64_t k : {256, 576 * 4, 4096, 14336}) {
      const LinearPlan one = Plan(weight, 1, 4096, k);
      for (int64_t m : {2, 16, 64, 300, 4096}) {
        for (int64_t n : {16, 4096, 128256}) {
          const LinearPlan plan = Plan(weight, m, n, k);
          EXPECT_EQ(plan.units, one.units);
          EXPECT_EQ(plan.units_per_slice, one.units_per_slice);
        }
      }
      EXPECT_GE(one.units_per_slice * kLinearSlices, one.units);
      EXPECT_GE(one.units * LinearUnitOf(weight), k);
    }
  }
}

TEST(LinearConfig, FewTokensStreamAndManyAreTiled) {
  EXPECT_FALSE(Plan(DType::kBF16, 1, 28672, 4096).kernel->tile);
  EXPECT_EQ(Plan(DType::kBF16, 1, 28672, 4096).kernel->tokens, 8);
  EXPECT_TRUE(Plan(DType::kBF16, 2048, 4096, 4096).kernel->tile);
  // Tiles would leave most multiprocessors idle.
  EXPECT_FALSE(Plan(DType::kBF16, 128, 4096, 4096).kernel->tile);
}

TEST(LinearConfig, RowsThatEndWithinAUnitTakeTheKernelForAnyRows) {
  EXPECT_FALSE(RowsFitUnits(DType::kBF16, 18));
  EXPECT_TRUE(RowsFitUnits(DType::kBF16, 576));
  EXPECT_TRUE(RowsFitUnits(DType::kQ4_1, 96));
  const LinearPlan plan =
      PlanLinear(Family(LinearArithmetic::kBf16, DType::kBF16), DType::kBF16,
                 {.m = 2048, .n = 4096, .k = 18, .compute_units = kUnits, .any_rows = true});
  EXPECT_EQ(std::string(plan.kernel->function), "bf16_any_8");
}

TEST(LinearConfig, SixteenBitFactorsStayWhatTheyAre) {
  EXPECT_EQ(NativeArithmetic(DType::kBF16, DType::kBF16), LinearArithmetic::kBf16);
  EXPECT_EQ(NativeArithmetic(DType::kF8E4M3, DType::kBF16), LinearArithmetic::kBf16);
  EXPECT_EQ(NativeArithmetic(DType::kQ4_1, DType::kBF16), LinearArithmetic::kBf16);
  EXPECT_EQ(NativeArithmetic(DType::kF16, DType::kF16), LinearArithmetic::kF16);
  // Neither type holds the other's numbers.
  EXPECT_EQ(NativeArithmetic(DType::kBF16, DType::kF16), LinearArithmetic::kExact);
  EXPECT_EQ(NativeArithmetic(DType::kF16, DType::kBF16), LinearArithmetic::kExact);
  EXPECT_EQ(NativeArithmetic(DType::kF32, DType::kBF16), LinearArithmetic::kExact);
  EXPECT_EQ(NativeArithmetic(DType::kQ4_1, DType::kF16), LinearArithmetic::kExact);
}

}  // namespace
}  // namespace sluice::cuda
