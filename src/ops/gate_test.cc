#include "ops/gate.h"

#include <gmock/gmock.h>

#include <cmath>

#include "ops/op_fixture.h"

namespace sluice::ops {
namespace {

using ::testing::HasSubstr;

class GateTest : public OpTest {};
SLUICE_FOR_EACH_INSTRUCTION_SET(GateTest);

TEST_P(GateTest, EachHeadIsNormalizedAloneAndGatedBehindTheNorm) {
  const GatedNorm::Desc desc = {.heads = 2, .head_dim = 2, .eps = 1e-30f};
  Array x = Array::Floats(DType::kF32, {1, 4}, {1, -7, 30, 40});  // mean squares 25 and 1250
  Array gate = Array::Floats(DType::kF32, {1, 4}, {2, -1, 0, 3});
  Array weight = Array::Floats(DType::kF32, {2}, {10, 1});
  const float expected[] = {static_cast<float>(0.2 * 10 * 2 * Sigmoid(2)),
                            static_cast<float>(-1.4 * -1 * Sigmoid(-1)), 0,
                            static_cast<float>(40 / std::sqrt(1250.0) * 3 * Sigmoid(3))};
  for (const bool in_place : {false, true}) {
    Array apart(DType::kF32, {1, 4});
    Array& out = in_place ? x : apart;
    ASSERT_TRUE(Run<GatedNorm>(desc, {.x = x.tensor(),
                                      .gate = gate.tensor(),
                                      .weight = weight.tensor(),
                                      .out = out.tensor()})
                    .ok());
    for (int i = 0; i < 4; ++i) EXPECT_NEAR(out.At(i), expected[i], 2e-6f) << i;
  }
}

TEST_P(GateTest, WhereTheGateIsFirstTheirProductIsNormalizedByWeightsOfAllHeads) {
  const GatedNorm::Desc desc = {.heads = 2, .head_dim = 2, .eps = 0.5f, .gate_first = true};
  Array x = Array::Floats(DType::kF32, {1, 4}, {1, -7, 30, 40});
  Array gate = Array::Floats(DType::kF32, {1, 4}, {2, -1, 0, 3});
  Array weight = Array::Floats(DType::kF32, {4}, {10, 1, 5, 2});
  const double a = 2 * Sigmoid(2), b = 7 * Sigmoid(-1), d = 120 * Sigmoid(3);
  const double first = std::sqrt((a * a + b * b) / 2 + 0.5), second = std::sqrt(d * d / 2 + 0.5);
  const double expected[] = {10 * a / first, b / first, 0, 2 * d / second};
  for (const bool in_place : {false, true}) {
    Array apart(DType::kF32, {1, 4});
    Array& out = in_place ? x : apart;
    ASSERT_TRUE(Run<GatedNorm>(desc, {.x = x.tensor(),
                                      .gate = gate.tensor(),
                                      .weight = weight.tensor(),
                                      .out = out.tensor()})
                    .ok());
    for (int i = 0; i < 4; ++i) EXPECT_NEAR(out.At(i), expected[i], 5e-6) << i;
  }
}

TEST_P(GateTest, GatesAndWhatTheyGiveAreScaled) {
  GatedNorm::Desc desc = {.heads = 1,
                          .head_dim = 2,
                          .eps = 0.5f,
                          .gate_first = true,
                          .gate_scale = 0.5f,
                          .out_scale = 3.0f};
  Array x = Array::Floats(DType::kF32, {1, 2}, {1, -7});
  Array gate = Array::Floats(DType::kF32, {1, 2}, {4, -2});
  Array weight = Array::Floats(DType::kF32, {2}, {10, 1}), out(DType::kF32, {1, 2});
  const double a = 2 * Sigmoid(2), b = 7 * Sigmoid(-1);
  const auto run = [&](const Tensor& weights) {
    return Run<GatedNorm>(
        desc, {.x = x.tensor(), .gate = gate.tensor(), .weight = weights, .out = out.tensor()});
  };
  ASSERT_TRUE(run(weight.tensor()).ok());
  const double length = std::sqrt((a * a + b * b) / 2 + 0.5);
  EXPECT_NEAR(out.At(0), 30 * a / length, 5e-6);
  EXPECT_NEAR(out.At(1), 3 * b / length, 5e-6);
  desc.norm = false;
  ASSERT_TRUE(run({}).ok());
  EXPECT_NEAR(out.At(0), 3 * a, 5e-6);
  EXPECT_NEAR(out.At(1), 3 * b, 5e-6);
  desc.gate_first = false;
  EXPECT_THAT(Bind<GatedNorm>(device_->ops(), desc).status().message(),
              HasSubstr("without a norm the gate comes first"));
}

TEST_P(GateTest, EpsIsAddedToTheMeanOfSquares) {
  Array x = Array::Floats(DType::kF32, {1, 2}, {3, 3}), out(DType::kF32, {1, 2});
  Array gate = Array::Floats(DType::kF32, {1, 2}, {100, 100});
  Array weight = Array::Floats(DType::kF32, {2}, {1, 1});
  ASSERT_TRUE(
      Run<GatedNorm>(
          {.heads = 1, .head_dim = 2, .eps = 16.0f},
          {.x = x.tensor(), .gate = gate.tensor(), .weight = weight.tensor(), .out = out.tensor()})
          .ok());
  EXPECT_NEAR(out.At(0), 60.0f, 1e-4f);
}

TEST_P(GateTest, SigmoidOfAStridedGate) {
  // The gate of a token lies behind numbers of something else.
  Array x = Array::Floats(DType::kF32, {2, 3}, {1, 2, 3, 4, 5, 6});
  Array rows = Array::Floats(DType::kF32, {2, 5}, {9, 9, 0, 1000, -1000, 9, 9, 1, -2, 3});
  Tensor gate = rows.tensor();
  gate.data += 2 * sizeof(float);
  gate.dims[1] = 3;
  ASSERT_TRUE(Run<SigmoidGate>({.width = 3}, {.x = x.tensor(), .gate = gate}).ok());
  const double expected[] = {0.5, 2, 0, 4 * Sigmoid(1), 5 * Sigmoid(-2), 6 * Sigmoid(3)};
  for (int i = 0; i < 6; ++i) EXPECT_NEAR(x.At(i), expected[i], 1e-6) << i;
}

TEST_P(GateTest, ShapesOptionsAndOverlapsAreChecked) {
  Array x(DType::kF32, {2, 4}), gate(DType::kF32, {2, 4}), weight(DType::kF32, {2});
  const GatedNorm::Args args = {
      .x = x.tensor(), .gate = gate.tensor(), .weight = weight.tensor(), .out = gate.tensor()};
  EXPECT_THAT(Run<GatedNorm>({.heads = 2, .head_dim = 2}, args).message(),
              HasSubstr("gate and out overlap"));
  EXPECT_THAT(Run<GatedNorm>({.heads = 1, .head_dim = 2}, args).message(),
              HasSubstr("x is F32 [2, 4], expected F32 [2, 2]"));
  EXPECT_THAT(Run<GatedNorm>({.heads = 2, .head_dim = 2, .eps = 0.0f}, args).message(),
              HasSubstr("eps is 0"));
  EXPECT_THAT(Run<SigmoidGate>({.width = 4}, {.x = x.tensor(), .gate = x.tensor()}).message(),
              HasSubstr("x and gate overlap"));
  EXPECT_THAT(
      Run<SigmoidGate>({.width = 4}, {.x = x.tensor(), .gate = gate.tensor().Rows(0, 1)}).message(),
      HasSubstr("gate is F32 [1, 4], expected F32 [2, 4]"));
}

}  // namespace
}  // namespace sluice::ops
