#include "server/http/body_budget.h"

#include <gtest/gtest.h>

#include <vector>

namespace sluice::server {
namespace {

MeteredBody BodyOf(BodyBudget* budget, size_t bytes_most, const std::string& owner = "a") {
  MeteredBody body;
  body.lease = BodyLease(budget, owner);
  body.bytes_most = bytes_most;
  return body;
}

TEST(BodyBudgetTest, AnAnnouncedBodyTakesNothingBeforeItsBytesCome) {
  BodyBudget budget(1 << 20, 1 << 20);
  MeteredBody body = BodyOf(&budget, 1 << 20);
  EXPECT_EQ(budget.used(), 0);
  ASSERT_TRUE(body.Append("a"));
  EXPECT_GT(budget.used(), 0);
  EXPECT_LE(budget.used(), 4 << 10);
}

TEST(BodyBudgetTest, ASmallBodyTakesItsAnnouncedSize) {
  BodyBudget budget(1 << 20, 1 << 20);
  MeteredBody body = BodyOf(&budget, 30);
  ASSERT_TRUE(body.Append("0123456789"));
  EXPECT_EQ(budget.used(), 30);
}

TEST(BodyBudgetTest, ABodyNeverTakesMoreThanCanCome) {
  BodyBudget budget(4 << 20, 1 << 20);
  MeteredBody body = BodyOf(&budget, 1 << 20);
  const std::string piece(10'000, 'x');
  while (body.text.size() + piece.size() <= (1 << 20)) {
    ASSERT_TRUE(body.Append(piece));
    EXPECT_LE(body.text.size(), static_cast<size_t>(budget.used()));
    EXPECT_LE(static_cast<size_t>(budget.used()), 2 * body.text.size());
  }
  EXPECT_LE(budget.used(), 1 << 20);
}

TEST(BodyBudgetTest, AFullBudgetRefusesAndKeepsItsCount) {
  BodyBudget budget(400'000, 0);
  MeteredBody first = BodyOf(&budget, 120'000);
  ASSERT_TRUE(first.Append(std::string(120'000, 'x')));
  MeteredBody second = BodyOf(&budget, 90'000);
  EXPECT_FALSE(second.Append(std::string(90'000, 'x')));
  EXPECT_EQ(budget.used(), 120'000);
  MeteredBody third = BodyOf(&budget, 80'000);
  EXPECT_TRUE(third.Append(std::string(80'000, 'x')));
}

// As many bytes as an owner gets, in bodies of 100,000.
int64_t TakeAll(BodyBudget* budget, const std::string& owner) {
  int64_t taken = 0;
  while (budget->Resize(owner, 0, 100'000)) taken += 100'000;
  return taken;
}

void Give(BodyBudget* budget, const std::string& owner, int64_t bytes) {
  for (; bytes > 0; bytes -= 100'000) EXPECT_TRUE(budget->Resize(owner, 100'000, 0));
}

TEST(BodyBudgetTest, AnOwnerGetsHalfOfWhatOthersLeave) {
  BodyBudget budget(8'000'000, 0);
  EXPECT_EQ(TakeAll(&budget, "a"), 4'000'000);
  EXPECT_EQ(TakeAll(&budget, "b"), 2'000'000);
  EXPECT_EQ(TakeAll(&budget, "a"), 0);
  EXPECT_EQ(TakeAll(&budget, "c"), 1'000'000);
  Give(&budget, "a", 4'000'000);
  Give(&budget, "b", 2'000'000);
  Give(&budget, "c", 1'000'000);
  EXPECT_EQ(budget.used(), 0);
  EXPECT_EQ(TakeAll(&budget, "b"), 4'000'000) << "nothing of the past is counted";
}

TEST(BodyBudgetTest, NoFloodOfLargeBodiesKeepsASmallOneOut) {
  constexpr size_t kLarge = 16 << 20;
  BodyBudget budget(512 << 20, 1000 * BodyBudget::kSmallBodyBytes);
  std::vector<MeteredBody> flood;
  int complete = 0;
  for (int i = 0; i < 31; ++i) {
    flood.push_back(BodyOf(&budget, kLarge));
    size_t sent = 0;
    while (sent < kLarge - 9 && flood.back().Append(std::string(32 << 10, 'x'))) sent += 32 << 10;
    complete += sent >= kLarge - 9;
  }
  EXPECT_EQ(complete, 16) << "of one address";
  for (int i = 0; i < 460; ++i) {
    flood.push_back(BodyOf(&budget, kLarge));
    EXPECT_TRUE(flood.back().Append("{"));
  }
  MeteredBody honest = BodyOf(&budget, BodyBudget::kSmallBodyBytes);
  EXPECT_TRUE(honest.Append(std::string(BodyBudget::kSmallBodyBytes, 'x'))) << "same address";
  MeteredBody other = BodyOf(&budget, kLarge, "b");
  EXPECT_TRUE(other.Append(std::string(kLarge, 'x'))) << "of another";
}

TEST(BodyBudgetTest, ABodyOfUnknownLengthIsSmallUntilItIsNot) {
  BodyBudget budget(0, 1 << 20);
  MeteredBody body = BodyOf(&budget, 16 << 20);
  for (const int size : {40'000, 25'000}) ASSERT_TRUE(body.Append(std::string(size, 'x'))) << size;
  EXPECT_FALSE(body.Append(std::string(1'000, 'x')));
}

TEST(BodyBudgetTest, TheSmallPoolHasAnEnd) {
  BodyBudget budget(1 << 20, 10'000);
  EXPECT_TRUE(budget.Resize("a", 0, 9'000));
  EXPECT_FALSE(budget.Resize("b", 0, 2'000));
  EXPECT_FALSE(budget.Resize("a", 9'000, 11'000));
  EXPECT_TRUE(budget.Resize("a", 9'000, 100'000)) << "it becomes a large one";
  EXPECT_TRUE(budget.Resize("b", 0, 2'000));
  EXPECT_EQ(budget.used(), 102'000);
  EXPECT_TRUE(budget.Resize("a", 100'000, 9'000)) << "what shrinks is never refused";
}

TEST(BodyBudgetTest, ABodyThatNobodyReadsTakesNothing) {
  BodyBudget budget(1 << 20, 1 << 20);
  MeteredBody body = BodyOf(&budget, 1 << 20);
  body.kept = false;
  ASSERT_TRUE(body.Append(std::string(1'000'000, 'x')));
  EXPECT_EQ(budget.used(), 0);
  EXPECT_TRUE(body.text.empty());
}

TEST(BodyBudgetTest, AnAddressCountsForItsHostOrNetwork) {
  using Address = std::array<unsigned char, 16>;
  const Address v4{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1};
  const Address v4_next{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 2};
  const Address v6{0x20, 1, 0xd, 0xb8, 0, 0, 0, 1, 1};
  const Address v6_same{0x20, 1, 0xd, 0xb8, 0, 0, 0, 1, 2};
  const Address v6_next{0x20, 1, 0xd, 0xb8, 0, 0, 0, 2, 1};
  const Address loopback4{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 9, 9, 9};
  const Address loopback6{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  EXPECT_NE(OwnerOfAddress(v4), OwnerOfAddress(v4_next));
  EXPECT_EQ(OwnerOfAddress(v6), OwnerOfAddress(v6_same));
  EXPECT_NE(OwnerOfAddress(v6), OwnerOfAddress(v6_next));
  EXPECT_EQ(OwnerOfAddress(loopback4), OwnerOfAddress(loopback6));
  EXPECT_NE(OwnerOfAddress(loopback4), OwnerOfAddress(v4));
}

TEST(BodyBudgetTest, ACompleteBodyShrinksAndItsEndGivesAllBack) {
  BodyBudget budget(32 << 20, 1 << 20);
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
