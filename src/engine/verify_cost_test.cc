#include "engine/verify_cost.h"

#include <gtest/gtest.h>

#include <cmath>

namespace sluice::engine {
namespace {

constexpr int kMax = limits::kDraftTokensMax;

TEST(VerifyCost, AsksForAStepWithoutDraftsFirstAndNowAndThen) {
  VerifyCost cost;
  EXPECT_TRUE(std::isinf(cost.Next(1)[0]));
  cost.Observe(1, 0, 0.01);
  int plain = 0;
  for (int step = 0; step < 1000; ++step) {
    const bool asks = std::isinf(cost.Next(1)[0]);
    plain += asks ? 1 : 0;
    cost.Observe(1, asks ? 0 : 4, asks ? 0.01 : 0.02);
  }
  EXPECT_GE(plain, 5);
  EXPECT_LE(plain, 10);
}

TEST(VerifyCost, GivesUpAskingWherePrefillsAreAlwaysInTheWay) {
  VerifyCost cost;
  int asked = 0;
  for (int step = 0; step < 20; ++step) asked += std::isinf(cost.Next(4)[0]) ? 1 : 0;
  EXPECT_EQ(asked, 16);
  EXPECT_EQ(cost.Next(4)[kMax - 1], 0) << "nothing is known";
}

TEST(VerifyCost, TellsTheExtraTimeAndWhatLiesBetweenInAStraightLine) {
  VerifyCost cost;
  for (int i = 0; i < 40; ++i) {
    cost.Observe(1, 0, 0.010);
    cost.Observe(1, 2, 0.012);
    cost.Observe(1, 6, 0.018);
  }
  const speculate::DraftCosts costs = cost.Next(1);
  EXPECT_NEAR(costs[0], 0.1, 0.01);
  EXPECT_NEAR(costs[1], 0.2, 0.01);
  EXPECT_NEAR(costs[3], 0.5, 0.02);
  EXPECT_NEAR(costs[5], 0.8, 0.02);
  EXPECT_NEAR(costs[7], 0.8 * 8 / 6, 0.03);
}

TEST(VerifyCost, CountsTheDraftsOfASequenceAndTellsBatchesApart) {
  VerifyCost cost;
  for (int i = 0; i < 40; ++i) {
    cost.Observe(64, 0, 0.010);
    cost.Observe(64, 128, 0.030);  // two of each
    cost.Observe(1, 0, 0.010);
    cost.Observe(1, 2, 0.010);
  }
  EXPECT_NEAR(cost.Next(64)[1], 2.0, 0.05);
  EXPECT_NEAR(cost.Next(1)[1], 0.0, 0.01);
}

TEST(VerifyCost, OneStepThatWasHeldUpSaysLittle) {
  VerifyCost cost;
  for (int i = 0; i < 40; ++i) {
    cost.Observe(1, 0, 0.010);
    cost.Observe(1, 4, 0.012);
  }
  cost.Observe(1, 4, 1.0);
  EXPECT_LT(cost.Next(1)[3], 0.4);
  cost.Observe(1, 0, 1.0);
  cost.Observe(1, 4, 0.012);
  EXPECT_GT(cost.Next(1)[3], 0.0);
}

TEST(VerifyCost, APriceThatNobodyPaidIsForgottenInTheEnd) {
  VerifyCost cost;
  cost.Observe(1, 0, 0.010);
  cost.Observe(1, 8, 0.050);
  EXPECT_NEAR(cost.Next(1)[7], 4, 0.01);
  for (int i = 0; i < 3000; ++i) cost.Observe(1, 0, 0.010);
  EXPECT_LT(cost.Next(1)[7], 0.3);
}

TEST(VerifyCost, MoreDraftsAreNeverCheaper) {
  VerifyCost cost;
  cost.Observe(1, 0, 0.010);
  cost.Observe(1, 2, 0.020);
  cost.Observe(1, 4, 0.012);
  const speculate::DraftCosts costs = cost.Next(1);
  for (int i = 1; i < kMax; ++i) EXPECT_GE(costs[i], costs[i - 1]);
}

}  // namespace
}  // namespace sluice::engine
