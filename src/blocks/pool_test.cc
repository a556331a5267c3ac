#include "blocks/pool.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <utility>
#include <vector>

namespace sluice::blocks {
namespace {

constexpr int32_t kNone = BlockPool::kNone;

TEST(BlockPool, HandsOutEachBlockOnce) {
  BlockPool pool(3);
  std::set<int32_t> blocks;
  int32_t evicted = 0;
  for (int i = 0; i < 3; ++i) {
    blocks.insert(pool.Allocate(&evicted));
    EXPECT_EQ(evicted, kNone);
  }
  EXPECT_EQ(blocks, (std::set<int32_t>{0, 1, 2}));
  EXPECT_EQ(pool.available(), 0);
  EXPECT_EQ(pool.referenced(), 3);
  EXPECT_TRUE(pool.Unref(1));
  EXPECT_EQ(pool.Allocate(&evicted), 1);
}

TEST(BlockPool, WhatWasFreedLastIsTakenFirst) {
  BlockPool pool(8);
  int32_t evicted = 0;
  for (int i = 0; i < 3; ++i) EXPECT_EQ(pool.Allocate(&evicted), i);
  for (int i = 3; i-- > 0;) pool.Unref(i);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(pool.Allocate(&evicted), i) << "not one never used";
  EXPECT_EQ(pool.Allocate(&evicted), 3);
  pool.CheckInvariants();
}

TEST(BlockPool, FreeBlocksAreToldByRuns) {
  BlockPool pool(6);
  std::vector<int32_t> taken(6);
  int32_t evicted = 0;
  for (int32_t& id : taken) id = pool.Allocate(&evicted);
  const auto runs = [&] {
    std::vector<std::pair<int32_t, int32_t>> found;
    pool.ForEachFreeRun([&](int32_t first, int32_t count) { found.emplace_back(first, count); });
    return found;
  };
  using Runs = std::vector<std::pair<int32_t, int32_t>>;
  EXPECT_EQ(runs(), Runs());
  pool.SetNode(4, 9);  // its content is known: it is cached, not free
  for (const int32_t id : {5, 0, 1, 4}) pool.Unref(id);
  EXPECT_EQ(runs(), (Runs{{0, 2}, {5, 1}}));
  for (const int32_t id : {2, 3}) pool.Unref(id);
  EXPECT_EQ(runs(), (Runs{{0, 4}, {5, 1}}));
}

TEST(BlockPool, ASharedBlockIsFreedByItsLastOwner) {
  BlockPool pool(1);
  int32_t evicted = 0;
  const int32_t block = pool.Allocate(&evicted);
  pool.Ref(block);
  EXPECT_FALSE(pool.Unref(block));
  EXPECT_EQ(pool.free(), 0);
  EXPECT_TRUE(pool.Unref(block));
  EXPECT_EQ(pool.free(), 1);
}

TEST(BlockPool, EvictsTheLeastRecentlyUsedAndOnlyWhenNoneIsFree) {
  BlockPool pool(3);
  int32_t evicted = 0;
  for (int32_t i = 0; i < 3; ++i) pool.SetNode(pool.Allocate(&evicted), 10 + i);
  pool.Unref(1);
  pool.Unref(0);
  pool.Unref(2);
  pool.Ref(1);  // used again: now the newest
  pool.Unref(1);
  EXPECT_EQ(pool.cached(), 3);
  EXPECT_EQ(pool.Allocate(&evicted), 0);
  EXPECT_EQ(evicted, 10);
  EXPECT_EQ(pool.node(0), kNone);
  pool.Unref(0);  // free again: taken before the cached ones
  EXPECT_EQ(pool.Allocate(&evicted), 0);
  EXPECT_EQ(evicted, kNone);
  EXPECT_EQ(pool.Allocate(&evicted), 2);
  EXPECT_EQ(pool.Allocate(&evicted), 1);
  EXPECT_EQ(evicted, 11);
  pool.CheckInvariants();
}

TEST(BlockPool, RandomUseKeepsTheInvariants) {
  std::mt19937 random(3);
  BlockPool pool(17);
  std::vector<int32_t> owned;
  int next_node = 0;
  for (int step = 0; step < 20000; ++step) {
    int32_t evicted = 0;
    if (random() % 2 == 0 && pool.available() > 0) {
      owned.push_back(pool.Allocate(&evicted));
      if (random() % 2 == 0) pool.SetNode(owned.back(), next_node++);
    } else if (!owned.empty()) {
      const size_t i = random() % owned.size();
      pool.Unref(owned[i]);
      owned.erase(owned.begin() + static_cast<int64_t>(i));
    }
    if (!owned.empty() && random() % 4 == 0) {
      owned.push_back(owned[random() % owned.size()]);
      pool.Ref(owned.back());
    }
    pool.CheckInvariants();
    ASSERT_EQ(pool.free() + pool.cached() + pool.referenced(), pool.size());
    ASSERT_EQ(static_cast<size_t>(pool.referenced()),
              std::set<int32_t>(owned.begin(), owned.end()).size());
  }
}

TEST(BlockPoolDeathTest, MisuseIsCaught) {
  BlockPool pool(1);
  EXPECT_DEATH(pool.Unref(0), "references > 0");
  EXPECT_DEATH(pool.Ref(0), "is free");
}

}  // namespace
}  // namespace sluice::blocks
