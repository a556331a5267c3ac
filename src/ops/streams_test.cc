#include "ops/streams.h"

#include <gmock/gmock.h>

#include <cmath>

#include "ops/op_fixture.h"

namespace sluice::ops {
namespace {

using ::testing::HasSubstr;

class StreamsTest : public OpTest {};
SLUICE_FOR_EACH_INSTRUCTION_SET(StreamsTest);

// Two streams of two numbers, whose routes are tanh(1) and -tanh(2).
const float kFirst = std::tanh(1.0f), kSecond = -std::tanh(2.0f);

TEST_P(StreamsTest, AStreamGrowsByAllOfThemAsTheyWere) {
  Array streams = Array::Floats(DType::kF32, {1, 4}, {1, 2, 10, 20});
  Array added = Array::Floats(DType::kF32, {1, 2}, {0.5f, -0.5f});
  Array routes = Array::Floats(DType::kF32, {1, 2}, {1, -2});
  // By rows: what the first gets of the first, of the second, and so on.
  Array table = Array::Floats(DType::kF32, {4, 2}, {1, 0, 0, 1, 2, 0, 0, 0});
  Array out(DType::kF32, {1, 2});
  ASSERT_TRUE(Run<PredictStreams>({.width = 2, .add = true}, {.streams = streams.tensor(),
                                                              .added = added.tensor(),
                                                              .routes = routes.tensor(),
                                                              .coefficients = table.tensor(),
                                                              .out = out.tensor()})
                  .ok());
  const float first[] = {1, 2}, second[] = {10.5f, 19.5f};
  for (int i = 0; i < 2; ++i) {
    const float expected = first[i] + first[i] * kFirst + second[i] * kSecond;
    EXPECT_NEAR(streams.At(i), expected, 1e-5f) << i;
    EXPECT_EQ(out.At(i), streams.At(i)) << i;
    EXPECT_NEAR(streams.At(2 + i), second[i] + 2 * first[i] * kFirst, 1e-5f) << i;
  }
}

TEST_P(StreamsTest, WhatALayerChangedGoesIntoEveryStream) {
  Array streams = Array::Floats(DType::kF32, {1, 4}, {1, 2, 10, 20});
  Array x = Array::Floats(DType::kF32, {1, 2}, {4, 1});
  Array routes = Array::Floats(DType::kF32, {1, 2}, {1, -2});
  Array table = Array::Floats(DType::kF32, {2, 2}, {0, 1, 3, 0});
  Array scale = Array::Floats(DType::kF32, {2}, {2, -1});
  Array out(DType::kF32, {1, 2});
  ASSERT_TRUE(Run<CorrectStreams>({.width = 2, .scaled = true}, {.streams = streams.tensor(),
                                                                 .x = x.tensor(),
                                                                 .routes = routes.tensor(),
                                                                 .coefficients = table.tensor(),
                                                                 .scale = scale.tensor(),
                                                                 .out = out.tensor()})
                  .ok());
  const float was[] = {1, 2, 10, 20}, change[] = {3, -1}, scales[] = {2, -1};
  for (int i = 0; i < 2; ++i) {
    EXPECT_NEAR(streams.At(i), was[i] + change[i] * (1 + kSecond), 1e-5f) << i;
    EXPECT_NEAR(streams.At(2 + i), was[2 + i] + change[i] * (1 + 3 * kFirst), 1e-5f) << i;
    EXPECT_NEAR(out.At(i), scales[i] * streams.At(i), 1e-6f) << i;
  }
}

TEST_P(StreamsTest, StreamsGetTheRootMeanSquareOfTheFirst) {
  const float root = std::sqrt(12.5f), own = std::sqrt(2.5f);
  for (const bool mean : {false, true}) {
    Array streams = Array::Floats(DType::kF32, {1, 6}, {3, 4, 1, -2, 0, 1e-3f});
    Array out(DType::kF32, {1, 2});
    LevelStreams::Args args = {.streams = streams.tensor()};
    if (mean) args.out = out.tensor();
    ASSERT_TRUE(Run<LevelStreams>({.streams = 3, .width = 2, .mean = mean}, args).ok());
    // The third one's mean square, 5e-7, counts as 1e-5.
    const float expected[] = {
        3, 4, root / own, -2 * root / own, 0, 1e-3f * root / std::sqrt(1e-5f)};
    for (int i = 0; i < 2; ++i) {
      if (mean) {
        EXPECT_NEAR(out.At(i), (expected[i] + expected[2 + i] + expected[4 + i]) / 3, 1e-5f);
        EXPECT_EQ(streams.At(2 + i), i == 0 ? 1.0f : -2.0f);  // as it was
        continue;
      }
      EXPECT_NEAR(streams.At(2 + i), expected[2 + i], 1e-5f) << i;
      EXPECT_NEAR(streams.At(4 + i), expected[4 + i], 1e-5f) << i;
    }
    EXPECT_EQ(streams.At(0), 3.0f);
  }
}

TEST_P(StreamsTest, WhatDoesNotFitIsRefused) {
  EXPECT_FALSE(Bind<LevelStreams>(device_->ops(), {.streams = 5, .width = 2}).ok());
  EXPECT_FALSE(Bind<LevelStreams>(device_->ops(), {.streams = 1, .width = 2}).ok());
  Array streams(DType::kF32, {1, 4}), routes(DType::kF32, {1, 2});
  Array table(DType::kF32, {2, 2}), out(DType::kF32, {1, 2});
  const Status status = Run<PredictStreams>({.width = 2}, {.streams = streams.tensor(),
                                                           .routes = routes.tensor(),
                                                           .coefficients = table.tensor(),
                                                           .out = out.tensor()});
  EXPECT_THAT(std::string(status.message()), HasSubstr("coefficients"));
  EXPECT_FALSE(
      Run<LevelStreams>({.width = 2, .mean = true},
                        {.streams = streams.tensor(), .out = streams.tensor().Columns(1, 2)})
          .ok());
}

}  // namespace
}  // namespace sluice::ops
