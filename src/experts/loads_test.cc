#include "experts/loads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice::experts {
namespace {

using ::testing::ElementsAre;

constexpr int64_t kSecond = 1'000'000;

TEST(Loads, WhatWasCountedAHalfLifeAgoWeighsHalf) {
  Loads loads({1, 3}, 2);
  loads.Take(std::vector<uint32_t>{8, 0, 4, 4}, 5 * kSecond);
  EXPECT_THAT(loads.Of(0), ElementsAre(8, 0));
  EXPECT_THAT(loads.Of(1), ElementsAre(4, 4));
  loads.Take(std::vector<uint32_t>{8, 3, 4, 4}, 65 * kSecond);
  EXPECT_THAT(loads.Of(0), ElementsAre(4, 3));
  EXPECT_THAT(loads.Of(1), ElementsAre(2, 2));
  EXPECT_EQ(loads.choices(), 19u);
  EXPECT_EQ(loads.takes(), 2u);
}

TEST(Loads, CountsThatPassTheirRangeGoOn) {
  Loads loads({0}, 1);
  loads.Take(std::vector<uint32_t>{0xfffffff0u}, 0);
  const double before = loads.Of(0)[0];
  loads.Take(std::vector<uint32_t>{0x10u}, 0);
  EXPECT_EQ(loads.Of(0)[0] - before, 0x20);
}

TEST(Loads, ARestartLeavesOutWhatWasCountedBefore) {
  Loads loads({0}, 2);
  loads.Take(std::vector<uint32_t>{5, 7}, 0);
  loads.Restart(std::vector<uint32_t>{6, 9});
  EXPECT_EQ(loads.choices(), 0u);
  loads.Take(std::vector<uint32_t>{7, 9}, kSecond);
  EXPECT_THAT(loads.Of(0), ElementsAre(1, 0));
}

TEST(Loads, ImbalanceIsTheLargestOverTheMean) {
  EXPECT_EQ(Imbalance(std::vector<double>{1, 1, 1, 1}), 1.0);
  EXPECT_EQ(Imbalance(std::vector<double>{4, 0, 0, 0}), 4.0);
  EXPECT_EQ(Imbalance(std::vector<double>{0, 0}), 1.0);  // nobody was given anything
}

}  // namespace
}  // namespace sluice::experts
