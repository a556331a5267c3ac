#include "engine/health.h"

#include <gtest/gtest.h>

namespace sluice::engine {
namespace {

EngineHealth AfterFailures(int failures, int64_t failed_ms) {
  return HealthOf({.consecutive_failures = failures, .failed_ms = failed_ms}, 0, false);
}

TEST(Health, AnIdleEngineIsWell) {
  const EngineHealth health = HealthOf({}, 0, false);
  EXPECT_TRUE(health.ok);
  EXPECT_TRUE(health.ready);
  EXPECT_EQ(health.reason, "");
}

TEST(Health, AStepThatNeverEndsIsToldAndOneThatTakesLongIsNot) {
  EXPECT_TRUE(HealthOf({.stuck_ms = kStuckMsMax}, 0, false).ok);
  const EngineHealth stuck = HealthOf({.stuck_ms = kStuckMsMax + 1}, 0, false);
  EXPECT_FALSE(stuck.ok);
  EXPECT_FALSE(stuck.ready);
  EXPECT_EQ(stuck.reason, "no step has finished for 30 s");
}

TEST(Health, ATextWorkerThatNeverEndsIsTold) {
  EXPECT_TRUE(HealthOf({}, kTextStuckMsMax, false).ok);
  for (const bool draining : {false, true}) {
    const EngineHealth stuck = HealthOf({}, kTextStuckMsMax + 1, draining);
    EXPECT_FALSE(stuck.ok);
    EXPECT_FALSE(stuck.ready);
    EXPECT_EQ(stuck.reason,
              "a text worker has been at one piece of work for 10 s; its requests wait");
  }
}

// A balancer sends nothing to a server that is not ready, so no step would ever succeed again.
TEST(Health, FailuresAgeSoThatARequestCanShowThatTheDeviceWorks) {
  EXPECT_TRUE(AfterFailures(kFailuresMax - 1, 0).ready);
  for (const int failures : {kFailuresMax, kFailuresMax + 1}) {
    EXPECT_FALSE(AfterFailures(failures, 0).ok);
    EXPECT_FALSE(AfterFailures(failures, kFailureMsMax - 1).ready);
    EXPECT_TRUE(AfterFailures(failures, kFailureMsMax).ok);
    EXPECT_TRUE(AfterFailures(failures, kFailureMsMax).ready);
  }
}

TEST(Health, DrainingAndPausedEnginesAreWellButNotReady) {
  EXPECT_TRUE(HealthOf({}, 0, true).ok);
  EXPECT_FALSE(HealthOf({}, 0, true).ready);
  EXPECT_EQ(HealthOf({}, 0, true).reason, "draining");
  EXPECT_FALSE(HealthOf({.paused = true}, 0, false).ready);
  EXPECT_EQ(HealthOf({.paused = true}, 0, false).reason, "paused");
}

}  // namespace
}  // namespace sluice::engine
