#include "speculate/draft_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace sluice::speculate {
namespace {

using ::testing::ElementsAre;
using Tokens = std::vector<int32_t>;

// Of drafts of one grade: how often they were right, from the first place on, where nothing might
// have come instead.
Acceptance Seen(int32_t grade, const std::vector<bool>& right_at_first) {
  Acceptance acceptance, others;
  Tokens text = {1};
  for (const bool right : right_at_first) {
    const int32_t draft = 70;
    acceptance.Propose(static_cast<int32_t>(text.size()), grade, {&draft, 1});
    text.push_back(right ? 70 : 71);
    acceptance.Observe(text, &others);
  }
  return acceptance;
}
// The same where something might: `which`: 0, the draft was right; 1, the other; 2, neither.
void SeeContested(const std::vector<int>& which, Acceptance* acceptance) {
  Acceptance others;
  Tokens text = {1};
  for (const int outcome : which) {
    const int32_t draft = 70, other = 71;
    acceptance->Propose(static_cast<int32_t>(text.size()), 0, {&draft, 1}, {&other, 1});
    text.push_back(70 + outcome);
    acceptance->Observe(text, &others);
  }
}

Tokens TokensOf(const DraftTree& tree) {
  return {tree.tokens.begin(), tree.tokens.begin() + tree.count};
}
Tokens ParentsOf(const DraftTree& tree) {
  return {tree.parents.begin(), tree.parents.begin() + tree.count};
}

constexpr DraftCosts kFree = {}, kDear = {9, 9, 9, 9, 9, 9, 9, 9};

TEST(ChooseTreeTest, WithoutOthersItIsTheChainThatChooseGives) {
  const Tokens chain = {1, 2, 3, 4, 5, 6};
  const Acceptance acceptance = Seen(1, {true, false, true, true});
  for (float cost = 0.02F; cost < 1.0F; cost *= 1.3F) {
    DraftCosts costs;
    for (size_t i = 0; i < costs.size(); ++i) costs[i] = cost * static_cast<float>(i + 1);
    const DraftTree tree = ChooseTree(chain, 1, {}, acceptance, &costs, 8);
    const int32_t count = acceptance.Choose(1, 6, costs);
    EXPECT_EQ(TokensOf(tree), Tokens(chain.begin(), chain.begin() + count)) << cost;
    for (int32_t i = 0; i < count; ++i) EXPECT_EQ(tree.parents[i], i);
  }
}

TEST(ChooseTreeTest, TakesTheLikeliestAndWhatTheyFollow) {
  const Tokens chain = {1, 2, 3};
  const std::vector<Aside> asides = {
      {.token = 11, .parent = 0}, {.token = 12, .parent = 4}, {.token = 21, .parent = 1}};
  Acceptance acceptance = Seen(2, {});
  SeeContested({1, 1, 1, 0, 1, 1, 1, 1, 1, 1, 1, 1}, &acceptance);
  EXPECT_GT(acceptance.AsideRight(), 0.7F);
  EXPECT_LT(acceptance.ContestedRight(), 0.3F);
  // The first draft is hardly ever right, so what may come instead of it and what follows that one
  // is worth more than the rest of the chain.
  const DraftTree two = ChooseTree(chain, 2, asides, acceptance, nullptr, 2);
  EXPECT_THAT(TokensOf(two), ElementsAre(11, 12));
  EXPECT_THAT(ParentsOf(two), ElementsAre(0, 1));
  const DraftTree four = ChooseTree(chain, 2, asides, acceptance, nullptr, 4);
  EXPECT_THAT(TokensOf(four), ElementsAre(1, 11, 12, 21));
  EXPECT_THAT(ParentsOf(four), ElementsAre(0, 0, 2, 1));
  const DraftTree all = ChooseTree(chain, 2, asides, acceptance, nullptr, 8);
  EXPECT_THAT(TokensOf(all), ElementsAre(1, 2, 3, 11, 12, 21));
  EXPECT_THAT(ParentsOf(all), ElementsAre(0, 1, 2, 0, 4, 1));
}

TEST(ChooseTreeTest, TheChainIsLeftAloneWhereTheOthersAreSeldomRight) {
  const Tokens chain = {1, 2, 3, 4};
  const std::vector<Aside> asides = {{.token = 11, .parent = 0}};
  Acceptance acceptance = Seen(3, {});
  SeeContested({0, 0, 0, 0, 0, 0, 0, 0, 2, 0}, &acceptance);
  EXPECT_THAT(TokensOf(ChooseTree(chain, 3, asides, acceptance, nullptr, 4)),
              ElementsAre(1, 2, 3, 4));
}

TEST(ChooseTreeTest, NoneWhereNonePays) {
  const Tokens chain = {1, 2, 3};
  const Acceptance acceptance = Seen(0, {});
  EXPECT_EQ(ChooseTree(chain, 0, {}, acceptance, &kDear, 8).count, 0);
  EXPECT_EQ(ChooseTree(chain, 0, {}, acceptance, &kFree, 8).count, 3);
  EXPECT_EQ(ChooseTree(chain, 0, {}, acceptance, &kFree, 0).count, 0);
  EXPECT_EQ(ChooseTree({}, 0, {}, acceptance, nullptr, 8).count, 0);
}

TEST(ChooseNodesTest, TheLikeliestAreTakenAndTheFirstBranchGoesAlongThem) {
  // 20 is less likely than 10, but what follows it is likelier than what follows 10.
  const std::vector<GuessedNode> nodes = {{10, 0, .5F}, {20, 0, .4F}, {30, 0, .02F},
                                          {11, 1, .3F}, {12, 1, .2F}, {21, 2, .9F}};
  const DraftTree tree = ChooseNodes(nodes, nullptr, 4);
  EXPECT_THAT(TokensOf(tree), ElementsAre(10, 11, 20, 21));
  EXPECT_THAT(ParentsOf(tree), ElementsAre(0, 1, 0, 3));
}

TEST(ChooseNodesTest, CostsDecideHowMany) {
  const std::vector<GuessedNode> nodes = {{10, 0, .5F}, {20, 0, .4F}, {11, 1, .1F}};
  EXPECT_EQ(ChooseNodes(nodes, &kFree, 8).count, 3);
  EXPECT_EQ(ChooseNodes(nodes, &kDear, 8).count, 0);
  const DraftCosts costs = {.1F, .2F, .5F, 9, 9, 9, 9, 9};
  EXPECT_THAT(TokensOf(ChooseNodes(nodes, &costs, 8)), ElementsAre(10, 20));
}

TEST(ChooseNodesTest, WhatIsNoneIsNotTaken) {
  const std::vector<GuessedNode> nodes = {{10, 0, .5F}, {10, 0, 0.0F}, {11, 2, .9F}};
  EXPECT_THAT(TokensOf(ChooseNodes(nodes, nullptr, 8)), ElementsAre(10));
}

TEST(GuessTrustTest, AHeadThatIsTooSureIsTrustedLess) {
  GuessTrust trust;
  EXPECT_FLOAT_EQ(trust.Right(.5F), .5F);
  for (int i = 0; i < 400; ++i) trust.Observe(.8F, i % 5 < 2);
  EXPECT_NEAR(trust.Right(.8F), .4F, .1F);
  for (int i = 0; i < 400; ++i) trust.Observe(.3F, i % 10 < 6);
  EXPECT_NEAR(trust.Right(.3F), .6F, .15F);
  EXPECT_LT(trust.Right(1.0F), 1.0F);
}

}  // namespace
}  // namespace sluice::speculate
