#include "ops/experts.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "ops/op_fixture.h"

namespace sluice::ops {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ExpertsTest : public OpTest {
 protected:
  struct Routed {
    std::vector<int32_t> ids;
    std::vector<float> weights;
  };
  // Of one token.
  Routed Route(const RouteExperts::Desc& desc, const std::vector<float>& logits,
               const std::vector<float>& bias = {}) {
    Array x = Array::Floats(DType::kF32, {1, desc.experts}, logits);
    Array ids(DType::kI32, {1, desc.top_k}), weights(DType::kF32, {1, desc.top_k});
    RouteExperts::Args args{.logits = x.tensor(), .ids = ids.tensor(), .weights = weights.tensor()};
    Array b;
    if (desc.bias) {
      b = Array::Floats(DType::kF32, {desc.experts}, bias);
      args.bias = b.tensor();
    }
    const Status status = Run<RouteExperts>(desc, args);
    EXPECT_TRUE(status.ok()) << status.message();
    Routed routed;
    for (int i = 0; i < desc.top_k; ++i) {
      routed.ids.push_back(ids.Int(static_cast<size_t>(i)));
      routed.weights.push_back(weights.At(static_cast<size_t>(i)));
    }
    return routed;
  }
};
SLUICE_FOR_EACH_INSTRUCTION_SET(ExpertsTest);

// The bias outweighs a logit, which it would not before the softmax.
TEST_P(ExpertsTest, ABiasOnProbabilitiesChoosesAndDoesNotWeigh) {
  const std::vector<float> logits = {0, std::log(2.0f), std::log(5.0f), 0};
  RouteExperts::Desc desc = {
      .scoring = RouterScoring::kSoftmaxBiased, .experts = 4, .top_k = 2, .bias = true};
  Routed routed = Route(desc, logits, {0.0f, 0.0f, 0.0f, 0.25f});
  EXPECT_THAT(routed.ids, ElementsAre(2, 3));
  EXPECT_NEAR(routed.weights[0], 5.0 / 9, 1e-6);
  EXPECT_NEAR(routed.weights[1], 1.0 / 9, 1e-6);
  desc.scoring = RouterScoring::kSoftmax;
  EXPECT_THAT(Route(desc, logits, {0.0f, 0.0f, 0.0f, 0.25f}).ids, ElementsAre(2, 1));
  desc.scoring = RouterScoring::kSoftmaxBiased;
  desc.renormalize = true;
  routed = Route(desc, logits, {0.0f, 0.0f, -1.0f, 0.25f});
  EXPECT_THAT(routed.ids, ElementsAre(3, 1));
  EXPECT_NEAR(routed.weights[0], 1.0 / 3, 1e-6);
}

TEST_P(ExpertsTest, RowsTakeTheWeightsOfTheirTokens) {
  Array x = Array::Floats(DType::kF32, {4, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  Array weights = Array::Floats(DType::kF32, {2, 2}, {0.5f, 2.0f, 3.0f, -1.0f});
  Array places = Array::Ints({2, 2}, {3, 0, 1, 2});
  const ScaleExperts::Desc desc = {.top_k = 2, .width = 2};
  ASSERT_TRUE(Run<ScaleExperts>(
                  desc, {.x = x.tensor(), .weights = weights.tensor(), .places = places.tensor()})
                  .ok());
  const float expected[] = {2, 4, 9, 12, -5, -6, 3.5f, 4};
  for (size_t i = 0; i < 8; ++i) EXPECT_EQ(x.At(i), expected[i]) << i;
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(weights.At(i), 1.0f) << i;
}

TEST_P(ExpertsTest, ASoftmaxOverAllExpertsWeighsTheBest) {
  const std::vector<float> logits = {0, std::log(2.0f), std::log(5.0f), 0};
  RouteExperts::Desc desc = {.experts = 4, .top_k = 2};
  Routed routed = Route(desc, logits);
  EXPECT_THAT(routed.ids, ElementsAre(2, 1));
  EXPECT_NEAR(routed.weights[0], 5.0 / 9, 1e-6);
  EXPECT_NEAR(routed.weights[1], 2.0 / 9, 1e-6);
  desc.renormalize = true;
  desc.scale = 2.0f;
  routed = Route(desc, logits);
  EXPECT_NEAR(routed.weights[0], 2.0 * 5 / 7, 1e-6);
  EXPECT_NEAR(routed.weights[1], 2.0 * 2 / 7, 1e-6);
}

TEST_P(ExpertsTest, ANumberOfTheExpertWeighsBehindTheSumOfOne) {
  RouteExperts::Desc desc = {
      .experts = 4, .top_k = 2, .renormalize = true, .expert_scales = true, .scale = 2.0f};
  Array logits = Array::Floats(DType::kF32, {1, 4}, {0, std::log(2.0f), std::log(5.0f), 0});
  Array scales = Array::Floats(DType::kF32, {4}, {7.0f, -1.0f, 0.5f, 7.0f});
  Array ids(DType::kI32, {1, 2}), weights(DType::kF32, {1, 2});
  RouteExperts::Args args;
  args.logits = logits.tensor();
  args.scales = scales.tensor();
  args.ids = ids.tensor();
  args.weights = weights.tensor();
  ASSERT_TRUE(Run<RouteExperts>(desc, args).ok());
  EXPECT_EQ(ids.Int(0), 2);
  EXPECT_NEAR(weights.At(0), 2.0 * 5 / 7 * 0.5, 1e-6);
  EXPECT_NEAR(weights.At(1), 2.0 * 2 / 7 * -1.0, 1e-6);
  args.scales = {};
  EXPECT_FALSE(Run<RouteExperts>(desc, args).ok());
}

TEST_P(ExpertsTest, EqualExpertsAreTakenByTheirIndex) {
  EXPECT_THAT(Route({.experts = 5, .top_k = 3}, {1, 2, 1, 2, 1}).ids, ElementsAre(1, 3, 0));
}

TEST_P(ExpertsTest, ABiasChoosesAndDoesNotWeigh) {
  const RouteExperts::Desc desc = {
      .scoring = RouterScoring::kSigmoid, .experts = 3, .top_k = 2, .bias = true};
  const Routed routed = Route(desc, {4, 0, -4}, {0, 0, 2});
  EXPECT_THAT(routed.ids, ElementsAre(2, 0));
  EXPECT_NEAR(routed.weights[0], Sigmoid(-4), 1e-6);
  EXPECT_NEAR(routed.weights[1], Sigmoid(4), 1e-6);
}

TEST_P(ExpertsTest, OnlyTheBestGroupsTakePart) {
  RouteExperts::Desc desc = {
      .scoring = RouterScoring::kSigmoid, .experts = 6, .top_k = 2, .groups = 2, .groups_kept = 1};
  // The first group has the best expert, the second the better pair.
  EXPECT_THAT(Route(desc, {3, -9, -9, 2, 1, -9}).ids, ElementsAre(3, 4));
  desc.groups_kept = 2;
  EXPECT_THAT(Route(desc, {3, -9, -9, 2, 1, -9}).ids, ElementsAre(0, 3));
  // Equal groups by their index; a group of one expert counts as that one.
  desc.groups_kept = 1;
  EXPECT_THAT(Route(desc, {1, 0, 0, 1, 0, 0}).ids, ElementsAre(0, 1));
  desc.groups = 6;
  desc.groups_kept = 2;
  EXPECT_THAT(Route(desc, {0, 1, 0, 2, 0, 0}).ids, ElementsAre(3, 1));
}

TEST_P(ExpertsTest, NaNMakesTheWeightsNaNAndTheExpertsStayExperts) {
  for (const auto& logits : {std::vector<float>{kNan, kNan, kNan}, {kNan, 1, 2}, {1, 2, kNan}}) {
    const Routed routed = Route({.experts = 3, .top_k = 2}, logits);
    EXPECT_NE(routed.ids[0], routed.ids[1]);
    for (int i = 0; i < 2; ++i) {
      EXPECT_TRUE(routed.ids[i] >= 0 && routed.ids[i] < 3) << routed.ids[i];
      EXPECT_TRUE(std::isnan(routed.weights[i]));
    }
  }
}

TEST_P(ExpertsTest, TokensStandByExpertInTheirOrder) {
  Array ids = Array::Ints({3, 2}, {3, 0, 1, 3, 3, 1});
  Array starts(DType::kI32, {5}), tokens(DType::kI32, {6}), places(DType::kI32, {3, 2});
  ASSERT_TRUE(Run<GroupExperts>({.experts = 4, .top_k = 2}, {.ids = ids.tensor(),
                                                             .starts = starts.tensor(),
                                                             .tokens = tokens.tensor(),
                                                             .places = places.tensor()})
                  .ok());
  EXPECT_EQ(starts, Array::Ints({0, 1, 3, 3, 6}));  // nobody takes expert 2
  EXPECT_EQ(tokens, Array::Ints({0, 1, 2, 0, 1, 2}));
  EXPECT_EQ(places, Array::Ints({3, 2}, {3, 0, 1, 4, 5, 2}));
}

TEST_P(ExpertsTest, CountsGrowByTheChoicesOfTokensThatAreNoPadding) {
  Array ids = Array::Ints({3, 2}, {3, 0, 1, 3, 3, 1});
  Array starts(DType::kI32, {5}), tokens(DType::kI32, {6}), places(DType::kI32, {3, 2});
  Array counts = Array::Ints({10, 20, 30, -1}), counted = Array::Ints({2});
  GroupExperts::Args args = {.ids = ids.tensor(),
                             .starts = starts.tensor(),
                             .tokens = tokens.tensor(),
                             .places = places.tensor(),
                             .counts = counts.tensor(),
                             .counted = counted.tensor()};
  ASSERT_TRUE(Run<GroupExperts>({.experts = 4, .top_k = 2}, args).ok());
  EXPECT_EQ(counts, Array::Ints({11, 21, 30, 1}));  // the last has passed 2^32
  EXPECT_EQ(starts, Array::Ints({0, 1, 3, 3, 6}));  // padding has its places
  args.counted = {};
  ASSERT_TRUE(Run<GroupExperts>({.experts = 4, .top_k = 2}, args).ok());
  EXPECT_EQ(counts, Array::Ints({12, 23, 30, 4}));
  args.counts = starts.tensor();
  EXPECT_THAT(Run<GroupExperts>({.experts = 4, .top_k = 2}, args).message(), HasSubstr("counts"));
}

TEST_P(ExpertsTest, WhatExpertsGiveIsAddedInTheOrderOfTheChoices) {
  // In another order the large numbers would not cancel.
  Array y = Array::Floats(DType::kF32, {3, 2}, {1, 0, 1e8f, 7, -1e8f, 100});
  Array weights = Array::Floats(DType::kF32, {1, 3}, {1, 1, 0.5f});
  Array places = Array::Ints({1, 3}, {1, 2, 0});
  Array x = Array::Floats(DType::kF32, {1, 2}, {10, 20});
  ASSERT_TRUE(
      Run<CombineExperts>({.top_k = 3, .width = 2, .residual = true}, {.y = y.tensor(),
                                                                       .weights = weights.tensor(),
                                                                       .places = places.tensor(),
                                                                       .residual = x.tensor(),
                                                                       .out = x.tensor()})
          .ok());
  EXPECT_EQ(x.At(0), 10.5f);
  EXPECT_EQ(x.At(1), 127.0f);
}

TEST_P(ExpertsTest, WhatCannotBeRoutedIsDeclinedWithItsNumbers) {
  const auto reason = [](const RouteExperts::Desc& desc) {
    return RefRouteExpertsSupports(desc, {}).reason;
  };
  EXPECT_THAT(reason({.experts = 0, .top_k = 1}), HasSubstr("0 experts"));
  EXPECT_THAT(reason({.experts = 1025, .top_k = 1}), HasSubstr("1 to 1024"));
  EXPECT_THAT(reason({.experts = 8, .top_k = 9}), HasSubstr("1 to 8 can be taken"));
  EXPECT_THAT(reason({.experts = 8, .top_k = 1, .groups = 3}), HasSubstr("1 of 3 groups of 8"));
  EXPECT_THAT(reason({.experts = 8, .top_k = 5, .groups = 4, .groups_kept = 2}),
              HasSubstr("1 to 4 can be taken"));
  EXPECT_THAT(reason({.experts = 8, .top_k = 1, .scale = kNan}), HasSubstr("scale is nan"));
}

TEST_P(ExpertsTest, ShapesAndIndicesAreChecked) {
  Array ids = Array::Ints({1, 2}, {0, 4});
  Array starts(DType::kI32, {5}), tokens(DType::kI32, {2}), places(DType::kI32, {1, 2});
  GroupExperts::Args args = {.ids = ids.tensor(),
                             .starts = starts.tensor(),
                             .tokens = tokens.tensor(),
                             .places = places.tensor()};
  EXPECT_THAT(Run<GroupExperts>({.experts = 4, .top_k = 2}, args).message(),
              HasSubstr("ids[1] is 4, outside the range from 0 to 3"));
  args.tokens = ids.tensor();
  EXPECT_THAT(Run<GroupExperts>({.experts = 4, .top_k = 2}, args).message(), HasSubstr("tokens"));
  Array logits(DType::kF32, {1, 3}), weights(DType::kF32, {1, 2});
  EXPECT_THAT(Run<RouteExperts>(
                  {.experts = 4, .top_k = 2},
                  {.logits = logits.tensor(), .ids = ids.tensor(), .weights = weights.tensor()})
                  .message(),
              HasSubstr("logits is F32 [1, 3], expected F32 [1, 4]"));
  Array y(DType::kF32, {2, 1});
  EXPECT_THAT(Run<CombineExperts>({.top_k = 2, .width = 1}, {.y = y.tensor(),
                                                             .weights = weights.tensor(),
                                                             .places = ids.tensor(),
                                                             .out = y.tensor().Rows(0, 1)})
                  .message(),
              HasSubstr("y and out overlap"));
}

}  // namespace
}  // namespace sluice::ops
