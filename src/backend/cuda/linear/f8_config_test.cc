// Tiles of products in F8, chosen without a GPU.
#include "backend/cuda/linear/f8_config.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "base/str_cat.h"

namespace sluice::cuda {
namespace {

constexpr int kUnits = 132;

TEST(F8Config, TilesCoverAllRowsAndTokensAndFitSharedMemory) {
  for (const F8Kernel& kernel : F8Kernels()) {
    for (const int64_t n : {1, 7, 8, 33, 576, 4096, 6144, 28672, 128256}) {
      for (const int64_t m : {1, 9, 64, 129, 4096}) {
        const F8Plan plan = PlanF8With(kernel, {m, n, 4096, kUnits});
        const std::string what = StrCat(kernel.rows_function, " ", m, " x ", n);
        EXPECT_EQ(plan.rows % kF8RowsStep, 0) << what;
        EXPECT_GE(plan.rows, kF8RowsStep) << what;
        EXPECT_LE(plan.rows, kernel.groups * kF8GroupRows) << what;
        EXPECT_GE(int64_t{plan.rows} * plan.row_tiles, n) << what;
        EXPECT_LT(int64_t{plan.rows} * (plan.row_tiles - 1), n) << what;
        EXPECT_GE(int64_t{kernel.tokens} * plan.token_tiles, m) << what;
        EXPECT_EQ(plan.blocks % kernel.cluster, 0u) << what;
        const int resident = F8LeavesRoom(kernel.tokens, kernel.groups) ? 2 : 1;
        EXPECT_LE(plan.blocks, static_cast<unsigned>(resident * kUnits)) << what;
        EXPECT_GE(plan.stages, 2) << what;
        EXPECT_LE(plan.shared_bytes, F8SharedMax(kernel.tokens, kernel.groups)) << what;
      }
    }
  }
}

TEST(F8Config, GroupedProductsHaveTheirTableInSharedMemory) {
  for (const F8Kernel& kernel : F8Kernels()) {
    for (const int64_t m : {1, 8, 1000, 65536}) {
      const F8Plan plan = PlanF8With(
          kernel, {.m = m, .n = 1536, .k = 2048, .compute_units = kUnits, .experts = 128});
      EXPECT_GE(plan.stages, 1) << kernel.grouped_rows_function;
      EXPECT_LE(plan.shared_bytes, F8SharedMax(kernel.tokens, kernel.groups))
          << kernel.grouped_rows_function;
      EXPECT_GE(plan.token_tiles, std::min<int64_t>(m, 128));
    }
  }
}

// By the rows that an expert has on average.
TEST(F8Config, GroupedProductsTakeTheKernelForTheirExpertsRows) {
  const auto tokens_of = [](int64_t places) {
    return PlanF8({.m = places, .n = 1536, .k = 2048, .compute_units = kUnits, .experts = 128})
        .kernel->tokens;
  };
  EXPECT_EQ(tokens_of(8), 8);
  EXPECT_LE(tokens_of(1024), 16);
  EXPECT_EQ(tokens_of(16 * 128), 32);  // half of the experts have more than 16
  EXPECT_GE(tokens_of(32768), 128);
}

// Of the shapes of an 8B model all multiprocessors read, though n is small for them.
TEST(F8Config, FewTokensSpreadTheRowsOverTheDevice) {
  EXPECT_EQ(PlanF8({1, 4096, 4096, kUnits}).rows, 32);
  EXPECT_EQ(PlanF8({1, 6144, 4096, kUnits}).rows, 48);
  EXPECT_EQ(PlanF8({1, 28672, 4096, kUnits}).rows, 64);
  EXPECT_EQ(PlanF8({1, 512, 4096, kUnits}).rows, 16);
}

// The fastest of those measured on an H200 (bench/results).
TEST(F8Config, AKernelForEachShapeAndNumberOfTokens) {
  struct Choice {
    int64_t m, n, k;
    std::string function;
  };
  const Choice kChosen[] = {
      {1, 4096, 4096, "f8_linear_8x1_rows"},      {8, 28672, 4096, "f8_linear_8x1_rows"},
      {16, 6144, 4096, "f8_linear_16x1_rows"},    {64, 4096, 4096, "f8_linear_32x1_rows"},
      {64, 28672, 4096, "f8_linear_64x1_rows"},   {128, 4096, 14336, "f8_linear_64x1_rows"},
      {128, 6144, 4096, "f8_linear_64x1_rows"},   {256, 4096, 14336, "f8_linear_64x1_rows"},
      {128, 28672, 4096, "f8_linear_128x2_rows"}, {512, 4096, 4096, "f8_linear_128x2_rows"},
      {4096, 4096, 14336, "f8_linear_128x2_rows"}};
  for (const Choice& c : kChosen) {
    EXPECT_EQ(PlanF8({c.m, c.n, c.k, kUnits}).kernel->rows_function, c.function)
        << c.m << " tokens, " << c.n << " x " << c.k;
  }
}

// Two thread blocks share a multiprocessor where each has as many tiles as two would take turns at.
TEST(F8Config, SomeProductsHaveTwoThreadBlocksToAMultiprocessor) {
  EXPECT_GT(PlanF8({64, 28672, 4096, kUnits}).blocks, static_cast<unsigned>(kUnits));
  EXPECT_LE(PlanF8({1, 28672, 4096, kUnits}).blocks, static_cast<unsigned>(kUnits));
  EXPECT_LE(PlanF8({64, 4096, 4096, kUnits}).blocks, static_cast<unsigned>(kUnits));
}

// Tiles of few rows would give every thread block the same share of many tiles, at a multiple of
// the time.
TEST(F8Config, ManyTilesHaveManyRows) {
  for (const F8Kernel& kernel : F8Kernels()) {
    EXPECT_GE(PlanF8With(kernel, {512, 28672, 4096, kUnits}).rows, 32) << kernel.rows_function;
  }
}

TEST(F8Config, ScratchHoldsCodesAndScalesOfEveryUnit) {
  const F8Scratch blocks = F8ScratchOf(300, 1104, true);
  EXPECT_GE(blocks.scales, 300u * 1104u);
  EXPECT_EQ(blocks.scale_stride, 300);
  EXPECT_EQ(blocks.bytes - blocks.scales, (9u * 300u + 256u) * 4u);
  const F8Scratch rows = F8ScratchOf(300, 1104, false);
  EXPECT_GE(rows.bytes - rows.scales, 300u * 4u);
  EXPECT_LE(F8ScratchOf(1, 1104, true).bytes, blocks.bytes);
}

}  // namespace
}  // namespace sluice::cuda
