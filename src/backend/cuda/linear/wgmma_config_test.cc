// Which implementation is bound for 16 bits, and its tiles, chosen without a GPU or a library.
#include "backend/cuda/linear/wgmma_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "backend/cuda/linear/impls.h"
#include "base/str_cat.h"
#include "ops/linear.h"

namespace sluice::cuda {
namespace {

using ::testing::HasSubstr;

constexpr int kUnits = 132;  // multiprocessors of an H200

WgmmaPlan Plan(int64_t m, int64_t n, int64_t k = 4096) { return PlanWgmma({m, n, k, kUnits}); }

TEST(WgmmaConfig, TilesCoverAllRowsAndTokensAndFitSharedMemory) {
  for (const WgmmaKernel& kernel : WgmmaKernels()) {
    for (const int64_t n : {8, 200, 576, 4096, 6144, 28672, 128256}) {
      for (const int64_t m : {1, 9, 64, 129, 4096}) {
        const WgmmaPlan plan = PlanWgmmaWith(kernel, {m, n, 4096, kUnits});
        const std::string what = StrCat(kernel.bf16_function, " ", m, " x ", n);
        EXPECT_EQ(plan.rows % 8, 0) << what;
        EXPECT_GE(plan.rows, 8) << what;
        EXPECT_LE(plan.rows, kernel.groups * kWgmmaGroupRows) << what;
        EXPECT_GE(int64_t{plan.rows} * plan.row_tiles, n) << what;
        EXPECT_LT(int64_t{plan.rows} * (plan.row_tiles - 1), n) << what;
        EXPECT_GE(int64_t{kernel.tokens} * plan.token_tiles, m) << what;
        EXPECT_LT(int64_t{kernel.tokens} * (plan.token_tiles - 1), m) << what;
        EXPECT_LE(plan.tokens, kernel.tokens) << what;
        EXPECT_GE(int64_t{plan.tokens} * plan.token_tiles, m) << what;
        EXPECT_LT(int64_t{plan.tokens} * (plan.token_tiles - 1), m) << what;
        EXPECT_GE(plan.blocks, 1u) << what;
        EXPECT_LE(plan.blocks, static_cast<unsigned>(kUnits)) << what;
        EXPECT_GE(plan.stages, 4) << what;
        EXPECT_LE(plan.stages, kWgmmaStagesMax) << what;
        EXPECT_LE(plan.shared_bytes, WgmmaSharedMax(kernel.groups)) << what;
      }
    }
  }
}

TEST(WgmmaConfig, FewTokensAreOneTileAndManyTakeTwoGroups) {
  for (const int64_t n : {4096, 6144, 28672}) {
    for (const int64_t m : {1, 8, 9, 16, 17, 33, 64, 65, 128}) {
      const WgmmaPlan plan = Plan(m, n);
      EXPECT_EQ(plan.token_tiles, 1) << m << " x " << n;
      EXPECT_LT(plan.kernel->tokens, m <= 64 ? 2 * std::max<int64_t>(m, 8) : 129) << m;
    }
    EXPECT_GE(Plan(4096, n).kernel->tokens, 192) << n;
    EXPECT_EQ(Plan(4096, n).kernel->groups, 2) << n;
  }
}

// A second tile costs as much as the first, however few tokens are left for it.
TEST(WgmmaConfig, BetweenFewAndManyTokensTilesHaveEquallyMany) {
  for (const int64_t n : {4096, 6144, 28672}) {
    for (int64_t m = kFewTokens + 1; m <= 2 * kFewTokens; ++m) {
      const WgmmaPlan plan = Plan(m, n);
      EXPECT_LE(plan.token_tiles, 2) << m << " x " << n;
      EXPECT_LE(int64_t{plan.tokens} * plan.token_tiles - m, 1) << m << " x " << n;
      EXPECT_LT(plan.kernel->tokens - plan.tokens, 64) << m << " x " << n;
    }
  }
}

// With n = 4096 there are 64 whole groups of rows for 132 multiprocessors.
TEST(WgmmaConfig, NearlyAllMultiprocessorsReadAnEqualShareOfTheWeights) {
  for (const int64_t n : {4096, 6144, 7168, 28672}) {
    const WgmmaPlan plan = Plan(1, n);
    const int64_t waves = (plan.row_tiles + kUnits - 1) / kUnits;
    EXPECT_GE(plan.row_tiles, waves * 120) << n;
    EXPECT_EQ(plan.blocks, static_cast<unsigned>(std::min(plan.row_tiles, kUnits))) << n;
  }
}

// A deep ring is what keeps the memory busy.
TEST(WgmmaConfig, WithFewTokensRingsHoldMostOfSharedMemory) {
  for (const int64_t m : {1, 16, 32, 64}) {
    const WgmmaPlan plan = Plan(m, 4096);
    EXPECT_GE(plan.stages * WgmmaStageBytes(plan.kernel->tokens, plan.rows), 170 * 1024) << m;
  }
}

class WgmmaBindTest : public ::testing::Test {
 protected:
  WgmmaBindTest() {
    facts_.id.kind = device::DeviceKind::kCuda;
    RegisterLinear(table_);
  }
  device::DeviceFacts facts_;
  ops::OpTable table_{&facts_};
  ops::Linear::Desc desc_ = {.weight = DType::kBF16, .activation = DType::kBF16, .n = 64, .k = 128};
};

// What is slow beside what the device could do says so; F32 alone has nothing faster.
TEST_F(WgmmaBindTest, ItComesFirstFor16BitsAndWhatIsSlowSaysSo) {
  struct Expected {
    DType weight, activation;
    std::string name;
    bool slow;
  };
  const Expected all[] = {{DType::kBF16, DType::kBF16, "sm90_bf16_linear_wgmma", false},
                          {DType::kF16, DType::kF16, "sm90_f16_linear_wgmma", false},
                          {DType::kF8E4M3, DType::kBF16, "sm90_bf16_linear", true},
                          {DType::kQ4_0, DType::kBF16, "sm90_bf16_linear", true},
                          {DType::kF32, DType::kF32, "sm90_f32_linear", false},
                          {DType::kQ4_0, DType::kF32, "sm90_f32_linear", false},
                          {DType::kQ4_0, DType::kF16, "sm90_f32_linear", true},
                          {DType::kF16, DType::kBF16, "sm90_f32_linear", true}};
  for (const Expected& expected : all) {
    desc_.weight = expected.weight;
    desc_.activation = expected.activation;
    std::vector<ops::BindRecord> records;
    const auto bound = ops::Bind<ops::Linear>(table_, desc_, &records);
    ASSERT_TRUE(bound.ok()) << bound.status().message();
    EXPECT_EQ(bound->name(), expected.name);
    EXPECT_EQ(ops::SlowFallbacks(records).size(), expected.slow ? 1u : 0u) << desc_.ToString();
  }
}

// Rows that words of 16 bytes don't fit go to the kernel that takes any.
TEST_F(WgmmaBindTest, RowsThatAreNoMultipleOfEightTakeAnotherKernel) {
  desc_.k = 132;
  std::vector<ops::BindRecord> records;
  const auto bound = ops::Bind<ops::Linear>(table_, desc_, &records);
  ASSERT_TRUE(bound.ok()) << bound.status().message();
  EXPECT_EQ(bound->name(), "sm90_bf16_linear");
  EXPECT_EQ(ops::SlowFallbacks(records).size(), 1u);
}

// F32 out beside F16 is what its layers add to the residual stream.
TEST_F(WgmmaBindTest, AnF32ResidualAndABiasWithItAreTaken) {
  desc_ = {.weight = DType::kF16,
           .activation = DType::kF16,
           .n = 64,
           .k = 128,
           .bias = true,
           .residual = true,
           .f32_out = true};
  const auto bound = ops::Bind<ops::Linear>(table_, desc_);
  ASSERT_TRUE(bound.ok()) << bound.status().message();
  EXPECT_EQ(bound->name(), "sm90_f16_linear_wgmma");
}

TEST_F(WgmmaBindTest, WhatItCannotDoIsDeclinedWithTheReason) {
  ASSERT_TRUE(table_.ForceAll("linear=sm90_bf16_linear_wgmma").ok());
  const auto why = [&](auto change) {
    ops::Linear::Desc desc = desc_;
    change(desc);
    return ops::Bind<ops::Linear>(table_, desc).status().message();
  };
  EXPECT_THAT(why([](auto& d) { d.weight = DType::kF16; }),
              HasSubstr("F16 weights on BF16 activations"));
  EXPECT_THAT(why([](auto& d) { d.activation = DType::kF32; }),
              HasSubstr("BF16 weights on F32 activations"));
  EXPECT_THAT(why([](auto& d) { d.n = 33; }), HasSubstr("n = 33 and k = 128 must be multiples"));
  EXPECT_THAT(why([](auto& d) { d.k = 12; }), HasSubstr("n = 64 and k = 12 must be multiples"));
}

}  // namespace
}  // namespace sluice::cuda
