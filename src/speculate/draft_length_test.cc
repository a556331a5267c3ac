#include "speculate/draft_length.h"

#include <gtest/gtest.h>

#include <vector>

namespace sluice::speculate {
namespace {

using Tokens = std::vector<int32_t>;

constexpr DraftCosts kNoCosts = {};

DraftCosts Each(float cost) {
  DraftCosts costs;
  for (size_t i = 0; i < costs.size(); ++i) costs[i] = cost * static_cast<float>(i + 1);
  return costs;
}

// Of `times` drafts of three, of grade 1, the first `right` tokens were drawn.
void Show(Acceptance* one, Acceptance* all, int right, int times = 60) {
  Tokens tokens = {5};
  for (int i = 0; i < times; ++i) {
    one->Propose(static_cast<int32_t>(tokens.size()), 1, Tokens{7, 8, 9});
    for (int32_t at = 0; at < 3; ++at) tokens.push_back(at < right ? 7 + at : 99);
    one->Observe(tokens, all);
  }
}

TEST(Acceptance, AsManyAsAreRightWhereAStepCostsWithThem) {
  for (const int right : {0, 1, 2, 3}) {
    Acceptance one, all;
    Show(&one, &all, right);
    EXPECT_EQ(one.Choose(1, 3, Each(0.2F)), right);
    EXPECT_EQ(one.Choose(1, 1, Each(0.2F)), std::min(right, 1)) << "no more than there are";
    EXPECT_EQ(one.Choose(1, 3, Each(1.1F)), 0) << "a loss, even if all are right";
  }
}

TEST(Acceptance, ADraftThatCostsNothingIsTriedUntilItIsNeverRight) {
  Acceptance one, all;
  EXPECT_EQ(one.Choose(0, 8, kNoCosts), 8);
  EXPECT_GT(one.Choose(3, 8, Each(0.6F)), 0) << "what long runs say is tried at a price, too";
  Show(&one, &all, 0);
  EXPECT_EQ(one.Choose(1, 3, kNoCosts), 0);
  EXPECT_GT(one.Choose(0, 3, kNoCosts), 0) << "other grades are as they were";
}

TEST(Acceptance, LearnsFromTokensThatCameLaterThoughNoneWasVerified) {
  Acceptance one, all;
  Tokens tokens = {1};
  for (int i = 0; i < 200; ++i) {
    one.Propose(static_cast<int32_t>(tokens.size()), 1, Tokens{7, 8, 9});
    tokens.push_back(7 + i % 3);
    one.Observe(tokens, &all);
  }
  EXPECT_EQ(one.Choose(1, 3, Each(0.2F)), 3);
}

TEST(Acceptance, ALaterDraftWaitsUntilTheTokensOfTheFirstHaveCome) {
  Acceptance one, all;
  Tokens tokens = {1};
  for (int i = 0; i < 100; ++i) {
    const auto at = static_cast<int32_t>(tokens.size());
    one.Propose(at, 1, Tokens{7, 8, 9});
    tokens.push_back(7);
    one.Observe(tokens, &all);
    one.Propose(at + 1, 1, Tokens{50, 51, 52});
    tokens.insert(tokens.end(), {8, 9});
    one.Observe(tokens, &all);
  }
  EXPECT_EQ(one.Choose(1, 3, Each(0.2F)), 3);
}

TEST(Acceptance, AnotherSequenceBeginsWithWhatAllHaveShown) {
  Acceptance one, all, other;
  Show(&one, &all, 0, 400);
  other.Start(all);
  EXPECT_EQ(other.Choose(1, 3, Each(0.2F)), 0);
  Show(&other, &all, 3, 20);
  EXPECT_EQ(other.Choose(1, 3, Each(0.2F)), 3) << "it is not bound to it";
  EXPECT_EQ(one.Choose(1, 3, Each(0.2F)), 0);
}

// Behind the first wrong one nothing is known.
TEST(Acceptance, WhatWasVerifiedIsLearnedUpToTheFirstWrongOne) {
  Acceptance one, all, other;
  for (int i = 0; i < 60; ++i) one.Verified(1, 3, 1, &all);
  EXPECT_EQ(one.Choose(1, 3, Each(0.2F)), 1);
  other.Start(all);
  EXPECT_EQ(other.Choose(1, 3, Each(0.2F)), 1);
  for (int i = 0; i < 60; ++i) one.Verified(1, 1, 0, &all);
  EXPECT_EQ(one.Choose(1, 3, Each(0.2F)), 0);
  for (int i = 0; i < 60; ++i) one.Verified(1, 3, 3, &all);
  EXPECT_EQ(one.Choose(1, 3, Each(0.2F)), 3);
}

// The first answers of a program show soon that drafts are never right, or always.
TEST(Acceptance, WhatAllShowIsLearnedSoonAtFirst) {
  for (const bool right : {false, true}) {
    Acceptance all, one;
    for (int i = 0; i < 24; ++i) one.Verified(1, 1, right ? 1 : 0, &all);
    EXPECT_NEAR(all.Right(1, 0), right ? 0.95F : 0.2F, 0.05F);
    const float before = all.Right(1, 0);
    for (int i = 0; i < 200; ++i) one.Verified(1, 1, right ? 1 : 0, &all);
    const float settled = all.Right(1, 0);
    one.Verified(1, 1, right ? 0 : 1, &all);
    EXPECT_NEAR(all.Right(1, 0), settled, 0.02F) << "one counts little then";
    EXPECT_NE(before, settled);
  }
}

}  // namespace
}  // namespace sluice::speculate
