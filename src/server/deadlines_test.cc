#include "server/deadlines.h"

#include <gtest/gtest.h>

#include <future>
#include <vector>

#include "base/clock.h"

namespace sluice::server {
namespace {

TEST(DeadlinesTest, CallsComeInTheOrderOfTheirTimes) {
  Deadlines deadlines;
  const int64_t now = NowMicros();
  std::vector<int> order;
  std::promise<void> done;
  const auto later = deadlines.At(now + 2000, [&] {
    order.push_back(2);
    done.set_value();
  });
  const auto sooner = deadlines.At(now + 1000, [&] { order.push_back(1); });
  done.get_future().wait();
  EXPECT_EQ(order, (std::vector{1, 2}));
}

TEST(DeadlinesTest, WhatHasEndedIsNotCalled) {
  bool called = false;
  std::promise<void> done;
  Deadlines deadlines;
  const int64_t now = NowMicros();
  auto ended = deadlines.At(now + 1000, [&] { called = true; });
  ended.reset();
  const auto other = deadlines.At(now + 1000, [&] { done.set_value(); });
  done.get_future().wait();
  EXPECT_FALSE(called);
}

TEST(DeadlinesTest, AnEntryMayOutliveThem) {
  auto deadlines = std::make_unique<Deadlines>();
  const auto entry = deadlines->At(NowMicros() + 1'000'000'000, [] {});
  deadlines.reset();
}

}  // namespace
}  // namespace sluice::server
