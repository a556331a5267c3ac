#include "experts/planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>

#include "experts/loads.h"

namespace sluice::experts {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Loads by Zipf's law in any order.
std::vector<double> Zipf(int experts, double exponent, std::mt19937& random) {
  std::vector<double> loads;
  for (int i = 0; i < experts; ++i) loads.push_back(1e6 * std::pow(i + 1, -exponent));
  std::shuffle(loads.begin(), loads.end(), random);
  return loads;
}

double ImbalanceOf(const Placement& placement, std::span<const double> loads) {
  return Imbalance(RankLoads(placement, loads));
}

// What a placement promises.
void ExpectWhole(const Placement& placement, const PlanOptions& options, int experts) {
  ASSERT_EQ(placement.size(), static_cast<size_t>(options.ranks));
  std::set<int32_t> placed;
  int slots = 0;
  for (const std::vector<int32_t>& held : placement) {
    EXPECT_LE(held.size(), static_cast<size_t>(CapacityOf(options, experts)));
    EXPECT_TRUE(std::is_sorted(held.begin(), held.end()));
    EXPECT_EQ(std::adjacent_find(held.begin(), held.end()), held.end()) << "two copies on a rank";
    placed.insert(held.begin(), held.end());
    slots += static_cast<int>(held.size());
  }
  EXPECT_EQ(slots, experts + options.replicas);
  ASSERT_EQ(placed.size(), static_cast<size_t>(experts));
  EXPECT_EQ(*placed.begin(), 0);
  EXPECT_EQ(*placed.rbegin(), experts - 1);
}

TEST(Planner, EveryExpertIsPlacedAndNoRankHoldsItTwice) {
  std::mt19937 random(7);
  const auto any = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  for (int i = 0; i < 400; ++i) {
    const int nodes = any(1, 4), groups = nodes * any(1, 3), experts = groups * any(1, 24);
    PlanOptions options{.ranks = nodes * any(1, 8), .nodes = nodes, .groups = groups};
    options.replicas = nodes * any(0, experts / nodes);
    const Status checked = CheckPlanOptions(options, experts);
    if (!checked.ok()) continue;
    std::vector<double> loads = Zipf(experts, 0.2 * any(0, 15), random);
    for (double& load : loads) {
      if (any(0, 3) == 0) load = 0.0;  // as experts are that nobody takes
    }
    const Placement placement = Plan(loads, options);
    ExpectWhole(placement, options, experts);
    EXPECT_EQ(Plan(loads, options), placement) << "a plan is a function of its input";
  }
}

TEST(Planner, TenPercentReplicasBalanceZipfLoadsOnSixtyFourRanks) {
  std::mt19937 random(11);
  const PlanOptions options{.ranks = 64, .replicas = 26};
  for (const double exponent : {0.4, 0.6, 0.8, 1.0}) {
    for (int layer = 0; layer < 8; ++layer) {
      const std::vector<double> loads = Zipf(256, exponent, random);
      const Placement placement = Plan(loads, options);
      ExpectWhole(placement, options, 256);
      EXPECT_LE(ImbalanceOf(placement, loads), 1.05) << exponent;
      EXPECT_GT(ImbalanceOf(InOrder(256, 64), loads), 1.5) << exponent;
    }
  }
}

TEST(Planner, OnTheHierarchicalPolicyAGroupStaysOnItsNode) {
  std::mt19937 random(3);
  const PlanOptions options{.ranks = 16, .replicas = 32, .nodes = 4, .groups = 8};
  const std::vector<double> loads = Zipf(256, 0.8, random);
  const Placement placement = Plan(loads, options);
  ExpectWhole(placement, options, 256);
  std::vector<std::set<int>> nodes_of(8);
  for (int rank = 0; rank < 16; ++rank) {
    for (const int32_t expert : placement[rank]) nodes_of[expert / 32].insert(rank / 4);
  }
  std::vector<int> groups_of(4);
  for (const std::set<int>& nodes : nodes_of) {
    ASSERT_EQ(nodes.size(), 1u);
    ++groups_of[*nodes.begin()];
  }
  EXPECT_THAT(groups_of, ElementsAre(2, 2, 2, 2));
  EXPECT_LT(ImbalanceOf(placement, loads), ImbalanceOf(InOrder(256, 16), loads));
}

TEST(Planner, TheBusiestExpertGetsTheCopies) {
  const Placement placement = Plan(std::vector<double>{8, 1, 1, 1}, {.ranks = 4, .replicas = 3});
  for (const std::vector<int32_t>& held : placement) EXPECT_EQ(held.front(), 0);
  EXPECT_THAT(RankLoads(placement, std::vector<double>{8, 1, 1, 1}),
              ::testing::UnorderedElementsAre(2, 3, 3, 3));
}

TEST(Planner, WithoutLoadsAllExpertsCountTheSame) {
  const Placement placement = Plan(std::vector<double>(12, 0.0), {.ranks = 4});
  for (const std::vector<int32_t>& held : placement) EXPECT_EQ(held.size(), 3u);
  EXPECT_THAT(InOrder(5, 2), ElementsAre(ElementsAre(0, 1, 2), ElementsAre(3, 4)));
}

TEST(Planner, OptionsThatDoNotFitAreNamed) {
  const auto check = [](const PlanOptions& options) { return CheckPlanOptions(options, 16); };
  EXPECT_EQ(check({.ranks = 0}).field(), "ranks");
  EXPECT_THAT(check({.ranks = 513}).message(), HasSubstr("ranks is 513; it can be 1 to 512"));
  EXPECT_THAT(check({.ranks = 17}).message(), HasSubstr("more than the 16 experts"));
  EXPECT_TRUE(check({.ranks = 17, .replicas = 1}).ok());
  EXPECT_EQ(check({.ranks = 1, .replicas = 1}).field(), "replicas");
  EXPECT_EQ(check({.ranks = 4, .replicas = 17}).field(), "replicas");
  EXPECT_EQ(check({.ranks = 4, .nodes = 5}).field(), "nodes");
  EXPECT_THAT(check({.ranks = 4, .nodes = 3}).message(), HasSubstr("divides not both"));
  EXPECT_THAT(check({.ranks = 4, .nodes = 2}).message(), HasSubstr("1 group(s)"));
  EXPECT_TRUE(check({.ranks = 4, .replicas = 2, .nodes = 2, .groups = 4}).ok());
  // A node of one rank has no other to put copies on.
  EXPECT_EQ(check({.ranks = 2, .replicas = 2, .nodes = 2, .groups = 4}).field(), "replicas");
}

}  // namespace
}  // namespace sluice::experts
