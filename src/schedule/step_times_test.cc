#include "schedule/step_times.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace sluice::schedule {
namespace {

TEST(StepTimesTest, WhatWasNotSeenLiesBetweenWhatWas) {
  StepTimes times;
  EXPECT_EQ(times.Of(5), 0.0);
  times.Observe(64, 640);
  EXPECT_EQ(times.Of(64), 640);
  EXPECT_EQ(times.Of(8), 80);
  EXPECT_EQ(times.Of(256), 2560);
  times.Observe(1, 10);
  EXPECT_EQ(times.Of(1), 10);
  EXPECT_EQ(times.Of(8), 80);
  times.Observe(8, 50);
  EXPECT_EQ(times.Of(8), 50);
  EXPECT_NEAR(times.Of(36), (50 + 640) / 2.0, 1e-9);
}

TEST(StepTimesTest, AStepThatWasHeldUpCountsForLittle) {
  StepTimes times;
  times.Observe(1, 100);
  times.Observe(1, 1e6);
  EXPECT_LE(times.Of(1), 120);
}

TEST(StepTimesTest, StepsThatBecomeShorterAreForgotten) {
  StepTimes times;
  times.Observe(4, 1000);
  for (int i = 0; i < 1000; ++i) times.Observe(4, 10);
  EXPECT_NEAR(times.Of(4), 10, 1);
  EXPECT_NEAR(times.longest(), 10, 1);
}

TEST(StepTimesTest, StepsAreAsWideAsTheyMayBeLong) {
  StepTimes times;
  EXPECT_EQ(times.Within(100, 512), 512);
  for (const int tokens : {1, 2, 4, 8, 16, 32, 64, 128, 256, 512})
    times.Observe(tokens, 100 + 10 * tokens);
  EXPECT_EQ(times.Within(4 * times.Of(1), 512), 34);
  EXPECT_EQ(times.Within(1e9, 512), 512);
  EXPECT_EQ(times.Within(1e9, 100), 100);
}

TEST(StepTimesTest, ShortStepsKeepHalfOfTheBestRate) {
  StepTimes times;  // a step takes as long for one token as for 200
  for (const int tokens : {1, 2, 4, 8, 16, 32, 64, 128, 200}) times.Observe(tokens, 1000);
  EXPECT_EQ(times.Within(1, 512), 1);
  EXPECT_GE(times.WorthIt(1, 512), 100);
  EXPECT_LE(times.WorthIt(1, 512), 200);
  EXPECT_EQ(times.WorthIt(1, 64), 32) << "wider steps than there can be are no measure";
  EXPECT_EQ(times.WorthIt(150, 512), 150);
}

}  // namespace
}  // namespace sluice::schedule
