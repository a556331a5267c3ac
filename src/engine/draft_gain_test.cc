#include "engine/draft_gain.h"

#include <gtest/gtest.h>

namespace sluice::engine {
namespace {

constexpr double kPlainSeconds = 0.01;

// Steps with drafts until they rest, `most` at most, each of which draws `tokens` of each sequence
// in `cost` times the time of a step without.
int StepsUntilRest(DraftGain* gain, int sequences, int64_t tokens, double cost, int most) {
  int steps = 0;
  while (steps < most && !gain->Rests(sequences)) {
    gain->Observe(sequences, true, sequences * tokens, cost * kPlainSeconds, kPlainSeconds);
    ++steps;
  }
  return steps;
}

int StepsOfRest(DraftGain* gain, int sequences) {
  int steps = 0;
  while (gain->Rests(sequences)) {
    gain->Observe(sequences, false, sequences, kPlainSeconds, kPlainSeconds);
    ++steps;
  }
  return steps;
}

TEST(DraftGain, DraftsThatPayDoNotRest) {
  DraftGain gain;
  EXPECT_EQ(StepsUntilRest(&gain, 64, 2, 1.9, 5000), 5000);
}

TEST(DraftGain, DraftsThatLoseRestEachTimeLonger) {
  DraftGain gain;
  int tried = 0, rested = 0, last = 0;
  for (int i = 0; i < 6; ++i) {
    tried += StepsUntilRest(&gain, 64, 2, 2.1, 5000);
    const int rest = StepsOfRest(&gain, 64);
    EXPECT_GE(rest, last);
    last = rest;
    rested += rest;
  }
  EXPECT_GT(last, 4096);
  EXPECT_LT(tried, rested / 100);
  // Once they pay, the next rest is a short one again.
  EXPECT_EQ(StepsUntilRest(&gain, 64, 3, 2.1, 100), 100);
  StepsUntilRest(&gain, 64, 2, 2.1, 5000);
  EXPECT_LT(StepsOfRest(&gain, 64), 1000);
}

TEST(DraftGain, ATrialThatLosesMuchIsFollowedByALongRest) {
  DraftGain gain;
  const int tried = StepsUntilRest(&gain, 256, 2, 4.0, 5000);
  const double lost = (4.0 - 2.0) * tried;  // in steps without drafts
  EXPECT_LT(lost, 0.01 * StepsOfRest(&gain, 256));
}

TEST(DraftGain, WhatIsGainedMustBeMoreThanTheEstimatesMiss) {
  DraftGain gain;
  EXPECT_LT(StepsUntilRest(&gain, 64, 2, 2 / 1.01, 5000), 100);
  StepsOfRest(&gain, 64);
  EXPECT_EQ(StepsUntilRest(&gain, 64, 2, 2 / 1.05, 5000), 5000);
}

TEST(DraftGain, OneSequenceIsWatchedForLonger) {
  DraftGain gain;
  EXPECT_GE(StepsUntilRest(&gain, 1, 1, 1.2, 5000), 200);
}

TEST(DraftGain, SizesOfTheBatchRestByThemselves) {
  DraftGain gain;
  StepsUntilRest(&gain, 256, 1, 1.2, 5000);
  EXPECT_TRUE(gain.Rests(256));
  EXPECT_FALSE(gain.Rests(1));
  EXPECT_FALSE(gain.Rests(64));
}

TEST(DraftGain, WithoutAStepToCompareWithNothingIsLearned) {
  DraftGain gain;
  for (int i = 0; i < 1000; ++i) gain.Observe(8, true, 8, 1.0, 0);
  EXPECT_FALSE(gain.Rests(8));
}

}  // namespace
}  // namespace sluice::engine
