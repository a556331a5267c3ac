// Which kernel experts with few rows go through, without a GPU.
#include "backend/cuda/linear/f8_experts_config.h"

#include <gtest/gtest.h>

#include "base/str_cat.h"

namespace sluice::cuda {
namespace {

F8ExpertsShape First(int64_t places) {
  return {.places = places, .n = 1536, .k = 2048, .experts = 128, .gated = true};
}
F8ExpertsShape Second(int64_t places) {
  return {.places = places, .n = 2048, .k = 768, .experts = 128};
}
// Of DeepSeek-V3's experts, without gates.
F8ExpertsShape Long(int64_t places) {
  return {.places = places, .n = 4096, .k = 7168, .experts = 128};
}

TEST(F8ExpertsConfig, EachPartHasRoomInSharedMemory) {
  for (const F8ExpertsKernel& kernel : F8ExpertsKernels()) {
    for (const F8ExpertsShape& shape : {First(2048), Second(2048), Long(64)}) {
      const auto plan = PlanF8ExpertsWith(kernel, shape);
      const std::string what = StrCat(kernel.function, " ", shape.n, " x ", shape.k);
      // 32 tokens of 7168 codes leave no room for weights.
      ASSERT_EQ(plan.has_value(), kernel.tokens < 32 || shape.k < 7168) << what;
      if (!plan) continue;
      EXPECT_GE(plan->stages, kF8ExpertsGroups) << what;
      EXPECT_EQ(plan->stages % kF8ExpertsStagesStep, 0) << what;
      EXPECT_LE(plan->stages, kF8ExpertsStagesMax) << what;
      EXPECT_LE(plan->shared_bytes, 227 * 1024) << what;
      EXPECT_EQ(plan->shared_bytes - plan->stages * kF8ExpertsStageBytes,
                F8ExpertsRestBytes(kernel.tokens, static_cast<int>(shape.k), shape.gated));
    }
  }
}

TEST(F8ExpertsConfig, TakesTheKernelForTheRowsOfAnExpert) {
  EXPECT_EQ(PlanF8Experts(First(128))->kernel->tokens, 8);
  EXPECT_EQ(PlanF8Experts(First(512))->kernel->tokens, 16);
  EXPECT_EQ(PlanF8Experts(Second(2048))->kernel->tokens, 32);  // half have more than 16
  EXPECT_FALSE(PlanF8Experts(First(128))->all_taken);
  EXPECT_TRUE(PlanF8Experts(First(2048))->all_taken);
}

// With gates there is no other way to go.
TEST(F8ExpertsConfig, LeavesManyRowsAndFewExpertsToOthers) {
  for (const int64_t places : {8, 64 * 128}) {
    EXPECT_FALSE(PlanF8Experts(Second(places)).has_value()) << places;
    EXPECT_TRUE(PlanF8Experts(First(places)).has_value()) << places;
  }
  // Eight experts of 16 items each, and as many rows as there is room for.
  EXPECT_TRUE(PlanF8Experts(Long(8)).has_value());
  EXPECT_TRUE(PlanF8Experts(Long(512)).has_value());
  EXPECT_FALSE(PlanF8Experts(Long(2048)).has_value());
}

TEST(F8ExpertsConfig, DeclinesWhatIsNoWholeItemOrStage) {
  for (const auto& [n, k] : {std::pair<int64_t, int64_t>{1408, 2048}, {1536, 640}, {1536, 16384}}) {
    EXPECT_FALSE(
        PlanF8Experts({.places = 2048, .n = n, .k = k, .experts = 128, .gated = true}).has_value())
        << n << " x " << k;
  }
  EXPECT_FALSE(PlanF8Experts({.places = 2048, .n = 1536, .k = 2048, .experts = 600, .gated = true})
                   .has_value());
}

}  // namespace
}  // namespace sluice::cuda
