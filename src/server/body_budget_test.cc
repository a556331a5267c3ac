#include "server/body_budget.h"

#include <gtest/gtest.h>

namespace sluice::server {
namespace {

MeteredBody BodyOf(BodyBudget* budget, size_t bytes_most) {
  MeteredBody body;
  body.lease = BodyLease(budget);
  body.bytes_most = bytes_most;
  return body;
}

TEST(BodyBudgetTest, AnAnnouncedBodyTakesNothingBeforeItsBytesCome) {
  BodyBudget budget(1 << 20);
  MeteredBody body = BodyOf(&budget, 1 << 20);
  EXPECT_EQ(budget.used(), 0);
  ASSERT_TRUE(body.Append("a"));
  EXPECT_GT(budget.used(), 0);
  EXPECT_LE(budget.used(), 64 << 10);
}

TEST(BodyBudgetTest, ASmallBodyTakesItsAnnouncedSize) {
  BodyBudget budget(1 << 20);
  MeteredBody body = BodyOf(&budget, 30);
  ASSERT_TRUE(body.Append("0123456789"));
  EXPECT_EQ(budget.used(), 30);
}

TEST(BodyBudgetTest, ABodyNeverTakesMoreThanCanCome) {
  BodyBudget budget(1 << 20);
  MeteredBody body = BodyOf(&budget, 1 << 20);
  const std::string piece(10'000, 'x');
  while (body.text.size() + piece.size() <= (1 << 20)) {
    ASSERT_TRUE(body.Append(piece));
    EXPECT_LE(body.text.size(), static_cast<size_t>(budget.used()));
  }
  EXPECT_LE(budget.used(), 1 << 20);
}

TEST(BodyBudgetTest, AFullBudgetRefusesAndKeepsItsCount) {
  BodyBudget budget(100'000);
  MeteredBody first = BodyOf(&budget, 90'000);
  ASSERT_TRUE(first.Append(std::string(90'000, 'x')));
  MeteredBody second = BodyOf(&budget, 20'000);
  EXPECT_FALSE(second.Append(std::string(20'000, 'x')));
  EXPECT_EQ(budget.used(), 90'000);
  MeteredBody third = BodyOf(&budget, 10'000);
  EXPECT_TRUE(third.Append(std::string(10'000, 'x')));
}

TEST(BodyBudgetTest, ACompleteBodyShrinksAndItsEndGivesAllBack) {
  BodyBudget budget(16 << 20);
  {
    MeteredBody body = BodyOf(&budget, 16 << 20);
    ASSERT_TRUE(body.Append(std::string(1'000'000, 'x')));
    ASSERT_TRUE(body.Append("y"));
    EXPECT_GT(budget.used(), 1'500'000);
    body.Finish();
    EXPECT_EQ(budget.used(), 1'000'001);
    const MeteredBody moved = std::move(body);
    EXPECT_EQ(budget.used(), 1'000'001);
    EXPECT_EQ(moved.text.size(), 1'000'001u);
  }
  EXPECT_EQ(budget.used(), 0);
}

}  // namespace
}  // namespace sluice::server
