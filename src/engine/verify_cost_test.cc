#include "engine/verify_cost.h"

#include <gtest/gtest.h>

#include <cmath>

namespace sluice::engine {
namespace {

constexpr int kMax = limits::kDraftTokensMax;

TEST(VerifyCost, AsksForAStepWithoutDraftsFirstAndNowAndThen) {
  VerifyCost cost;
  EXPECT_TRUE(std::isinf(cost.Next({1})[0]));
  cost.Observe({1}, 0, 0.01);
  int plain = 0;
  for (int step = 0; step < 1000; ++step) {
    const bool asks = std::isinf(cost.Next({1})[0]);
    plain += asks ? 1 : 0;
    cost.Observe({1}, asks ? 0 : 4, asks ? 0.01 : 0.02);
  }
  EXPECT_GE(plain, 3);
  EXPECT_LE(plain, 6);
}

TEST(VerifyCost, GivesUpAskingWherePrefillsAreAlwaysInTheWay) {
  VerifyCost cost;
  int asked = 0;
  for (int step = 0; step < 20; ++step) asked += std::isinf(cost.Next({4})[0]) ? 1 : 0;
  EXPECT_EQ(asked, 16);
  EXPECT_LT(cost.Next({4})[kMax - 1], 0.5) << "nothing is known";
  EXPECT_GT(cost.Next({64})[kMax - 1], 2) << "those of many sequences are not free";
}

// 42 sequences of a step without drafts of 5 ms, beside prompts of which a token takes 25 us.
TEST(VerifyCost, BesidePromptsADraftCostsAsMuchAsATokenOfTheirs) {
  VerifyCost cost;
  cost.Observe({42}, 0, 0.005);
  for (int i = 0; i < 40; ++i) cost.Observe({42}, 42, 0.005);
  for (int i = 0; i < 40; ++i)
    cost.ObserveTokens(i % 2 == 0 ? 2000 : 8, i % 2 == 0 ? 0.050 : 0.004);
  speculate::DraftCosts costs = cost.NextBesidePrompts({42, 0});
  EXPECT_NEAR(costs[0], 42 * 25e-6 / 0.005, 0.02);
  EXPECT_NEAR(costs[3], 4 * 42 * 25e-6 / 0.005, 0.08);
  EXPECT_LT(cost.Next({42, 0})[0], 0.01) << "without prompts it is as free as it was";
  // Of the next smaller size nothing is known, nor will be while prompts are in the way.
  do {
    costs = cost.NextBesidePrompts({20, 0});
  } while (std::isinf(costs[0]));
  EXPECT_GE(costs[0], 20 * 25e-6 / 0.005);
}

TEST(VerifyCost, TellsTheExtraTimeAndWhatLiesBetweenInAStraightLine) {
  VerifyCost cost;
  for (int i = 0; i < 40; ++i) {
    cost.Observe({1}, 0, 0.010);
    cost.Observe({1}, 2, 0.012);
    cost.Observe({1}, 6, 0.018);
  }
  const speculate::DraftCosts costs = cost.Next({1});
  EXPECT_NEAR(costs[1], 0.2, 0.01);
  EXPECT_NEAR(costs[3], 0.5, 0.02);
  EXPECT_NEAR(costs[5], 0.8, 0.02);
  EXPECT_NEAR(costs[7], 0.8 * 8 / 6, 0.03);
}

// Time often grows in steps, as a device computes many rows at once: what lies beside a number that
// was measured is tried.
TEST(VerifyCost, WhatLiesBesideAMeasuredNumberIsHopedToBeCheaper) {
  VerifyCost cost;
  cost.Observe({64}, 0, 0.010);
  for (int i = 0; i < 40; ++i) cost.Observe({64}, 4 * 64, 0.020);
  speculate::DraftCosts costs = cost.Next({64});
  EXPECT_NEAR(costs[3], 1.0, 0.01);
  EXPECT_NEAR(costs[4], 1.0, 0.01) << "one more";
  EXPECT_NEAR(costs[2], 0.375, 0.01) << "one less";
  EXPECT_NEAR(costs[1], 0.5, 0.01);
  for (int i = 0; i < 40; ++i) cost.Observe({64}, 5 * 64, 0.029);
  costs = cost.Next({64});
  EXPECT_NEAR(costs[3], 1.0, 0.06);
  EXPECT_NEAR(costs[4], 1.9, 0.06);
}

TEST(VerifyCost, ANumberIsKnownOnceItWasMeasuredSomeTimes) {
  VerifyCost cost;
  cost.Observe({8}, 0, 0.010);
  for (int i = 0; i < 4; ++i) EXPECT_FALSE(cost.Observe({8}, 16, 0.012)) << i;
  EXPECT_TRUE(cost.Observe({8}, 16, 0.012));
  EXPECT_FALSE(cost.Observe({8}, 24, 0.012));
  EXPECT_TRUE(cost.Observe({8}, 0, 0.010));
  EXPECT_TRUE(cost.Observe({8}, 3, 0.010)) << "drafts of few say nothing of what those of all cost";
}

TEST(VerifyCost, CountsTheDraftsOfASequenceAndTellsBatchesApart) {
  VerifyCost cost;
  for (int i = 0; i < 40; ++i) {
    cost.Observe({64}, 0, 0.010);
    cost.Observe({64}, 128, 0.030);  // two of each
    cost.Observe({1}, 0, 0.010);
    cost.Observe({1}, 2, 0.010);
  }
  EXPECT_NEAR(cost.Next({64})[1], 2.0, 0.05);
  EXPECT_NEAR(cost.Next({1})[1], 0.0, 0.01);
}

TEST(VerifyCost, OneStepThatWasHeldUpSaysLittle) {
  VerifyCost cost;
  for (int i = 0; i < 40; ++i) {
    cost.Observe({1}, 0, 0.010);
    cost.Observe({1}, 4, 0.012);
  }
  cost.Observe({1}, 4, 1.0);
  EXPECT_LT(cost.Next({1})[3], 0.4);
  cost.Observe({1}, 0, 1.0);
  cost.Observe({1}, 4, 0.012);
  EXPECT_GT(cost.Next({1})[3], 0.0);
}

TEST(VerifyCost, APriceThatNobodyPaidIsForgottenInTheEnd) {
  VerifyCost cost;
  cost.Observe({1}, 0, 0.010);
  cost.Observe({1}, 8, 0.050);
  EXPECT_NEAR(cost.Next({1})[7], 4, 0.01);
  for (int i = 0; i < 3000; ++i) cost.Observe({1}, 0, 0.010);
  EXPECT_LT(cost.Next({1})[7], 0.3);
}

TEST(VerifyCost, AStepWithoutDraftsIsMeasuredAgainWhereContextsAreOthers) {
  VerifyCost cost;
  const auto asks = [&](int sequences, int context) {
    return std::isinf(cost.Next({sequences, context})[0]);
  };
  cost.Observe({256, 1000}, 0, 0.014);
  EXPECT_FALSE(asks(256, 1100));
  EXPECT_FALSE(asks(256, 900));
  EXPECT_TRUE(asks(256, 50));
  cost.Observe({256, 50}, 0, 0.010);
  EXPECT_EQ(cost.Plain(256), 0.010) << "what was measured with others says nothing of these";
  EXPECT_FALSE(asks(256, 60));
  EXPECT_TRUE(asks(256, 200));
  // One sequence's context is hardly anything beside the weights.
  cost.Observe({1, 50}, 0, 0.010);
  EXPECT_FALSE(asks(1, 500));
  EXPECT_TRUE(asks(1, 600));
}

TEST(VerifyCost, MoreDraftsAreNeverCheaper) {
  VerifyCost cost;
  cost.Observe({1}, 0, 0.010);
  cost.Observe({1}, 2, 0.020);
  cost.Observe({1}, 4, 0.012);
  const speculate::DraftCosts costs = cost.Next({1});
  for (int i = 1; i < kMax; ++i) EXPECT_GE(costs[i], costs[i - 1]);
}

}  // namespace
}  // namespace sluice::engine
