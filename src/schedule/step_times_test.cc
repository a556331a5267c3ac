#include "schedule/step_times.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace sluice::schedule {
namespace {

TEST(StepTimesTest, WhatWasNotSeenIsInProportionToWhatWas) {
  StepTimes times;
  EXPECT_EQ(times.Of(5), 0.0);
  times.Observe(64, 640);
  EXPECT_EQ(times.Of(64), 640);
  EXPECT_EQ(times.Of(100), 640);  // as many bits
  EXPECT_EQ(times.Of(8), 80);
  EXPECT_EQ(times.Of(256), 2560);
  times.Observe(1, 50);
  EXPECT_EQ(times.Of(1), 50);
  EXPECT_EQ(times.Of(8), 80);
}

TEST(StepTimesTest, StepsThatBecomeShorterAreForgotten) {
  StepTimes times;
  times.Observe(4, 1000);
  for (int i = 0; i < 1000; ++i) times.Observe(4, 10);
  EXPECT_NEAR(times.Of(4), 10, 1);
  EXPECT_NEAR(times.longest(), 10, 1);
}

TEST(StepTimesTest, AFewTokensKeepADeviceBusyThatComputesOneAfterTheOther) {
  StepTimes times;
  EXPECT_EQ(times.Efficient(512), 512);
  for (const int tokens : {1, 2, 4, 8, 16, 32, 64, 128, 256, 512})
    times.Observe(tokens, 10 * tokens);
  EXPECT_EQ(times.Efficient(512), 1);
  StepTimes wide;  // a step takes as long for one token as for 200
  for (const int tokens : {1, 2, 4, 8, 16, 32, 64, 128, 255, 511}) {
    wide.Observe(tokens, 1000 + 10 * std::max(0, tokens - 200));
  }
  EXPECT_EQ(wide.Efficient(600), 255);
  EXPECT_EQ(wide.Efficient(100), 100);
}

}  // namespace
}  // namespace sluice::schedule
