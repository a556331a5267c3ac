#include "model/layers/rope_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace sluice::model::layers {
namespace {

using files::RopeConfig;
using files::RopeScaling;
using ::testing::DoubleNear;
using ::testing::ElementsAre;

RopeConfig FourDims(RopeScaling scaling) {
  RopeConfig rope;
  rope.theta = 100.0f;
  rope.rotary_dims = 4;
  rope.scaling = scaling;
  rope.factor = 4.0f;
  rope.original_context = 32;
  return rope;
}

TEST(Rope, PlainAndLinear) {
  EXPECT_THAT(ComputeRopeFrequencies(FourDims(RopeScaling::kNone), 32, 32).inverse,
              ElementsAre(1.0, DoubleNear(0.1, 1e-12)));
  EXPECT_THAT(ComputeRopeFrequencies(FourDims(RopeScaling::kLinear), 128, 128).inverse,
              ElementsAre(0.25, DoubleNear(0.025, 1e-12)));
}

TEST(Rope, ProportionalTurnsSomePairsAndSlowsThemByTheFactor) {
  RopeConfig rope = FourDims(RopeScaling::kProportional);
  rope.portion = 0.5f;
  EXPECT_THAT(ComputeRopeFrequencies(rope, 32, 32).inverse, ElementsAre(0.25, 0.0));
  rope.portion = 1.0f;
  EXPECT_THAT(ComputeRopeFrequencies(rope, 32, 32).inverse,
              ElementsAre(0.25, DoubleNear(0.025, 1e-12)));
}

TEST(Rope, FrequencyFactorsDivide) {
  RopeConfig rope = FourDims(RopeScaling::kNone);
  rope.frequency_factors = {1.0f, 8.0f};
  EXPECT_THAT(ComputeRopeFrequencies(rope, 32, 32).inverse,
              ElementsAre(1.0, DoubleNear(0.0125, 1e-12)));
}

TEST(Rope, DynamicNtkIsPlainWithinTheOriginalContextAndFixedByTheLongestBeyond) {
  const RopeConfig rope = FourDims(RopeScaling::kDynamicNtk);
  EXPECT_THAT(ComputeRopeFrequencies(rope, 128, 32).inverse,
              ElementsAre(1.0, DoubleNear(0.1, 1e-12)));
  // theta' = 100 * (4 * 64 / 32 - 3)^(4 / 2) = 2500
  EXPECT_THAT(ComputeRopeFrequencies(rope, 128, 64).inverse,
              ElementsAre(1.0, DoubleNear(0.02, 1e-12)));
}

TEST(Rope, LongRopePicksItsFactorsByTheLongestSequence) {
  RopeConfig rope = FourDims(RopeScaling::kLongRope);
  rope.short_factor = {1.0f, 2.0f};
  rope.long_factor = {1.0f, 5.0f};
  const double scale = std::sqrt(1.0 + std::log(4.0) / std::log(32.0));
  const auto within = ComputeRopeFrequencies(rope, 128, 32);
  EXPECT_THAT(within.inverse, ElementsAre(1.0, DoubleNear(0.05, 1e-12)));
  EXPECT_NEAR(within.scale, scale, 1e-12);
  const auto beyond = ComputeRopeFrequencies(rope, 128, 33);
  EXPECT_THAT(beyond.inverse, ElementsAre(1.0, DoubleNear(0.02, 1e-12)));
  EXPECT_NEAR(beyond.scale, scale, 1e-12);
  rope.factor = 1.0f;  // the file gives none: the ratio of the contexts
  EXPECT_NEAR(ComputeRopeFrequencies(rope, 128, 32).scale, scale, 1e-12);
  rope.attention_factor = 1.5f;
  EXPECT_EQ(ComputeRopeFrequencies(rope, 128, 32).scale, 1.5);
}

// The last pair still turns within the original context: the ramp ends past the last pair, at the
// number of dimensions less one.
TEST(Rope, YarnsRampMayEndPastTheLastPair) {
  RopeConfig rope = FourDims(RopeScaling::kYarn);
  rope.theta = 10.0f;
  rope.original_context = 64;
  // A third of the way from 1 / sqrt(10) to a quarter of it.
  EXPECT_THAT(ComputeRopeFrequencies(rope, 256, 256).inverse,
              ElementsAre(1.0, DoubleNear(0.75 / std::sqrt(10.0), 1e-7)));
}

TEST(Rope, YarnScalesCosAndSinByItsMagnitude) {
  RopeConfig rope = FourDims(RopeScaling::kYarn);
  EXPECT_NEAR(ComputeRopeFrequencies(rope, 128, 128).scale, 0.1 * std::log(4.0) + 1.0, 1e-12);
  rope.mscale = rope.mscale_all_dim = 0.7f;
  EXPECT_NEAR(ComputeRopeFrequencies(rope, 128, 128).scale, 1.0, 1e-12);
  rope.attention_factor = 0.5f;
  EXPECT_EQ(ComputeRopeFrequencies(rope, 128, 128).scale, 0.5);
}

}  // namespace
}  // namespace sluice::model::layers
