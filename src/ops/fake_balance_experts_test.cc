#include "ops/fake_balance_experts.h"

#include <gmock/gmock.h>

#include "ops/op_fixture.h"

namespace sluice::ops {
namespace {

using ::testing::HasSubstr;

class FakeBalanceExpertsTest : public OpTest {};
SLUICE_FOR_EACH_INSTRUCTION_SET(FakeBalanceExpertsTest);

TEST_P(FakeBalanceExpertsTest, EveryExpertHasAsManyTokens) {
  Array ids = Array::Ints({4, 3}, std::vector<int32_t>(12, 7)), weights(DType::kF32, {4, 3});
  ASSERT_TRUE(Run<FakeBalanceExperts>({.experts = 4, .top_k = 3},
                                      {.ids = ids.tensor(), .weights = weights.tensor()})
                  .ok());
  EXPECT_EQ(ids, Array::Ints({4, 3}, {0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3}));
  for (size_t i = 0; i < 12; ++i) EXPECT_EQ(weights.At(i), 1.0f / 3);
}

TEST_P(FakeBalanceExpertsTest, ShapesAreChecked) {
  Array ids(DType::kI32, {1, 2}), weights(DType::kF32, {1, 3});
  EXPECT_THAT(Run<FakeBalanceExperts>({.experts = 4, .top_k = 2},
                                      {.ids = ids.tensor(), .weights = weights.tensor()})
                  .message(),
              HasSubstr("weights is F32 [1, 3], expected F32 [1, 2]"));
  EXPECT_THAT(RefFakeBalanceExpertsSupports({.experts = 4, .top_k = 5}, {}).reason,
              HasSubstr("5 of 4 experts"));
}

}  // namespace
}  // namespace sluice::ops
