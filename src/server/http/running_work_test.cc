#include "server/http/running_work.h"

#include <gtest/gtest.h>

#include <optional>

namespace sluice::server {
namespace {

TEST(RunningWork, TellsTheAgeOfTheOldestPieceThatHasNotEnded) {
  RunningWork work;
  EXPECT_EQ(work.OldestMs(1'000'000), 0);
  std::optional<RunningWork::Piece> late, early;
  late.emplace(&work, 5'000'000);
  EXPECT_EQ(work.OldestMs(5'000'000), 0);
  EXPECT_EQ(work.OldestMs(6'500'000), 1500);
  early.emplace(&work, 2'000'000);  // whose thread read the clock first and came second
  EXPECT_EQ(work.OldestMs(6'500'000), 4500);
  early.reset();
  EXPECT_EQ(work.OldestMs(6'500'000), 1500);
  late.reset();
  EXPECT_EQ(work.OldestMs(6'500'000), 0);
}

// A clock that was read before the work began, on another thread.
TEST(RunningWork, HasNoAgeBelowNothing) {
  RunningWork work;
  const RunningWork::Piece piece(&work, 2'000'000);
  EXPECT_EQ(work.OldestMs(1'000'000), 0);
}

}  // namespace
}  // namespace sluice::server
