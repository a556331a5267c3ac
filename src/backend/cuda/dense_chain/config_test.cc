#include "backend/cuda/dense_chain/config.h"

#include <gtest/gtest.h>

#include "backend/cuda/dense_chain/params.h"

namespace sluice::cuda {
namespace {

using ops::DenseChain;

// Llama-3.1-8B's.
DenseChain::Desc Taken() {
  return {.weight = DType::kF8E4M3,
          .weight_scales = ops::WeightScales::kBlock,
          .x_scales = ops::ActivationScales::kBlock,
          .activation = DType::kBF16,
          .tokens = 2,
          .attended = 4096,
          .hidden = 4096,
          .width = 14336,
          .qkv = 6144};
}

TEST(DenseChainConfigTest, TakesWhatTheKernelIsMadeFor) {
  EXPECT_TRUE(SupportsChain(Taken()).ok) << SupportsChain(Taken()).reason;
  const auto declines = [](auto change) {
    DenseChain::Desc desc = Taken();
    change(desc);
    return !SupportsChain(desc).ok;
  };
  EXPECT_TRUE(declines([](auto& d) { d.weight = DType::kBF16; }));
  EXPECT_TRUE(declines([](auto& d) { d.weight_scales = ops::WeightScales::kRow; }));
  EXPECT_TRUE(declines([](auto& d) { d.x_scales = ops::ActivationScales::kRow; }));
  EXPECT_TRUE(declines([](auto& d) { d.activation = DType::kF16; }));
  EXPECT_TRUE(declines([](auto& d) { d.kind = ops::Activation::kGeluTanh; }));
  EXPECT_TRUE(declines([](auto& d) { d.tokens = kChainTokensMax + 1; }));
  EXPECT_TRUE(declines([](auto& d) { d.attended += 128; }));
  EXPECT_TRUE(declines([](auto& d) { d.hidden = kChainHiddenMax + kChainStageK; }));
  EXPECT_TRUE(declines([](auto& d) { d.width = int64_t{kChainUnitsMax} * kChainUnit * 2; }));
  EXPECT_TRUE(declines([](auto& d) { d.qkv += 8; }));
}

TEST(DenseChainConfigTest, SharedMemoryHoldsAllPartsAndARing) {
  for (const int64_t width : {512, 14336, 32768}) {
    for (int tokens = 1; tokens <= kChainTokensMax; ++tokens) {
      DenseChain::Desc desc = Taken();
      desc.width = width;
      desc.tokens = tokens;
      ASSERT_TRUE(SupportsChain(desc).ok) << SupportsChain(desc).reason;
      const ChainPlan plan = PlanChain(desc, tokens);
      EXPECT_STREQ(plan.function, tokens <= 2 ? "f8_dense_chain_2" : "f8_dense_chain_4");
      EXPECT_LE(plan.shared_bytes, 227 * 1024);
      EXPECT_LE(plan.stages, kChainStagesMax);
      EXPECT_LE(plan.asked_max, plan.stages);
      EXPECT_GE(plan.asked_max, 1);
      // Weights come while all groups multiply.
      EXPECT_GT(plan.stages, kChainGroups);
      EXPECT_EQ(plan.code_bytes % 1024, 0);
      const int columns = tokens <= 2 ? 2 : 4;
      EXPECT_GE(int64_t{plan.code_bytes}, columns * std::max<int64_t>(width, 4096));
    }
  }
}

}  // namespace
}  // namespace sluice::cuda
