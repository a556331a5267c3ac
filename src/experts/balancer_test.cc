#include "experts/balancer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice::experts {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Two layers of four experts, which two ranks have three slots each for.
Balancer::Options OptionsOf(const BalanceInterval& interval = {}) {
  return {.shape = *ShapeOf(4, 2, 2), .layers = {1, 3}, .interval = interval};
}

Loads LoadsOf(const std::vector<uint32_t>& counts) {
  Loads loads({1, 3}, 4);
  loads.Take(counts, 0);
  return loads;
}

// Makes all copies that are to be made, and says how many.
int Finish(Balancer* balancer, const Loads& loads) {
  int copies = 0;
  for (int rounds = 0; balancer->busy(); ++rounds) {
    EXPECT_LT(rounds, 1000);
    if (rounds >= 1000) break;
    balancer->PlanNext(loads);
    while (const auto copy = balancer->Begin()) {
      balancer->End(*copy, 10);
      ++copies;
    }
  }
  return copies;
}

TEST(Balancer, IntervalsAreStepsOrSeconds) {
  EXPECT_EQ(ParseBalanceInterval("3000")->steps, 3000);
  EXPECT_EQ(ParseBalanceInterval("60s")->us, 60'000'000);
  EXPECT_EQ(ParseBalanceInterval("none")->steps, 0);
  for (const char* text : {"", "0", "-5", "60m", "s", "1e3", "99999999999999999999", "60 s"}) {
    EXPECT_THAT(ParseBalanceInterval(text).status().message(),
                HasSubstr("none, a number of steps as 3000, or of seconds as 60s"))
        << text;
  }
}

TEST(Balancer, BusyRanksGiveExpertsAway) {
  Balancer balancer(OptionsOf());
  // In layer 1 nearly all tokens take expert 2, which one rank has; layer 3 is in balance.
  const Loads loads = LoadsOf({1, 1, 90, 1, 50, 50, 50, 50});
  ASSERT_TRUE(balancer.Rebalance(1).ok());
  EXPECT_TRUE(balancer.busy());
  EXPECT_GT(Finish(&balancer, loads), 0);
  EXPECT_GT(balancer.imbalances(0).before, 1.9);
  EXPECT_LT(balancer.imbalances(0).planned, 1.1);
  EXPECT_EQ(balancer.map().Copies(0, 2), 2);
  EXPECT_LT(Imbalance(RankLoads(balancer.map().RanksOf(0), loads.Of(0))), 1.1);
  // Nothing was to be gained there.
  EXPECT_EQ(balancer.map().version(1), 1u);
  EXPECT_EQ(balancer.imbalances(1).planned, balancer.imbalances(1).before);
  EXPECT_EQ(balancer.totals().plans, 2u);
  EXPECT_EQ(balancer.totals().declined, 1u);
  EXPECT_EQ(balancer.totals().layers, 1u);
  EXPECT_EQ(balancer.totals().bytes, 10 * balancer.totals().copies);
}

TEST(Balancer, StepsAndTimeMakePlans) {
  const Loads loads = LoadsOf({1, 1, 90, 1, 1, 1, 90, 1});
  Balancer by_steps(OptionsOf({.steps = 3}));
  for (int step = 0; step < 3; ++step) by_steps.BeginStep(0);
  EXPECT_FALSE(by_steps.busy());
  by_steps.BeginStep(0);
  EXPECT_TRUE(by_steps.busy());
  Finish(&by_steps, loads);
  EXPECT_EQ(by_steps.totals().layers, 2u);
  for (int step = 0; step < 2; ++step) by_steps.BeginStep(0);
  EXPECT_FALSE(by_steps.busy());
  by_steps.BeginStep(0);
  EXPECT_TRUE(by_steps.busy());

  Balancer by_time(OptionsOf({.us = 500}));
  by_time.BeginStep(1000);
  by_time.BeginStep(1499);
  EXPECT_FALSE(by_time.busy());
  by_time.BeginStep(1500);
  EXPECT_TRUE(by_time.busy());

  Balancer never(OptionsOf());
  for (int step = 0; step < 10'000; ++step) never.BeginStep(step * 1'000'000'000LL);
  EXPECT_FALSE(never.busy());
}

TEST(Balancer, WhatIsWantedIsCheckedAndDone) {
  Balancer balancer(OptionsOf());
  const Placement placement = {{1, 2, 3}, {0, 2, 3}};
  EXPECT_THAT(balancer.CheckWanted(0, placement).message(), HasSubstr("no experts in layer 0"));
  EXPECT_THAT(balancer.CheckWanted(3, {{1, 2, 3}, {1, 2, 3}}).message(),
              HasSubstr("no slot for expert 0"));
  EXPECT_EQ(balancer.Rebalance(2).field(), "nodes");  // the router has one group
  ASSERT_TRUE(balancer.CheckWanted(3, placement).ok());
  balancer.Want(3, placement);
  Finish(&balancer, LoadsOf({0, 0, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(balancer.map().RanksOf(1), placement);
  EXPECT_EQ(balancer.map().version(0), 1u);
}

TEST(Balancer, WhatTheSpareIsGivenIsNoRanks) {
  const MapShape shape = *ShapeOf(4, 2, 2);
  EXPECT_THAT(RankLoadsOf(shape, std::vector<double>{1, 2, 3, 4, 5, 6, 100}), ElementsAre(6, 15));
}

}  // namespace
}  // namespace sluice::experts
