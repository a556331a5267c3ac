#include "server/shared/deadlines.h"

#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <vector>

#include "base/clock.h"

namespace sluice::server {
namespace {

// A call that lasts until it is let go: meanwhile no other comes, however slow the test is.
class Held {
 public:
  explicit Held(Deadlines* deadlines)
      : entry_(deadlines->At(0, [this] {
          entered_.set_value();
          leave_.get_future().wait();
        })) {
    entered_.get_future().wait();
  }
  void LetGo() { leave_.set_value(); }

 private:
  std::promise<void> entered_, leave_;
  const std::unique_ptr<Deadlines::Entry> entry_;
};

TEST(DeadlinesTest, CallsComeInTheOrderOfTheirTimes) {
  Deadlines deadlines;
  Held held(&deadlines);
  const int64_t now = NowMicros();
  std::vector<int> order;
  std::promise<void> done;
  const auto later = deadlines.At(now + 2000, [&] {
    order.push_back(2);
    done.set_value();
  });
  const auto sooner = deadlines.At(now + 1000, [&] { order.push_back(1); });
  held.LetGo();
  done.get_future().wait();
  EXPECT_EQ(order, (std::vector{1, 2}));
}

TEST(DeadlinesTest, WhatHasEndedIsNotCalled) {
  bool called = false;
  std::promise<void> done;
  Deadlines deadlines;
  Held held(&deadlines);
  const int64_t now = NowMicros();
  auto ended = deadlines.At(now + 1000, [&] { called = true; });
  ended.reset();
  const auto other = deadlines.At(now + 1000, [&] { done.set_value(); });
  held.LetGo();
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
