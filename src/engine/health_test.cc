#include "engine/health.h"

#include <gtest/gtest.h>

namespace sluice::engine {
namespace {

EngineHealth AfterFailures(int failures, int64_t failed_ms) {
  return HealthOf({.consecutive_failures = failures, .failed_ms = failed_ms}, {}, false);
}

TEST(Health, AnIdleEngineIsWell) {
  const EngineHealth health = HealthOf({}, {}, false);
  EXPECT_TRUE(health.ok);
  EXPECT_TRUE(health.ready);
  EXPECT_EQ(health.reason, "");
}

TEST(Health, AStepThatNeverEndsIsToldAndOneThatTakesLongIsNot) {
  EXPECT_TRUE(HealthOf({.stuck_ms = kStuckMsMax}, {}, false).ok);
  const EngineHealth stuck = HealthOf({.stuck_ms = kStuckMsMax + 1}, {}, false);
  EXPECT_FALSE(stuck.ok);
  EXPECT_FALSE(stuck.ready);
  EXPECT_EQ(stuck.reason, "no step has finished for 30 s");
}

TEST(Health, ATextWorkerThatNeverEndsIsTold) {
  EXPECT_TRUE(HealthOf({}, {.stuck_ms = kTextStuckMsMax}, false).ok);
  for (const bool draining : {false, true}) {
    const EngineHealth stuck = HealthOf({}, {.stuck_ms = kTextStuckMsMax + 1}, draining);
    EXPECT_FALSE(stuck.ok);
    EXPECT_FALSE(stuck.ready);
    EXPECT_EQ(stuck.reason,
              "a text worker has been at one piece of work for 10 s; its requests wait");
  }
}

TEST(Health, RequestsThatNoTextWorkerTakesAreTold) {
  EXPECT_TRUE(HealthOf({}, {.untaken_ms = kTextUntakenMsMax}, false).ok);
  const EngineHealth waiting = HealthOf({}, {.untaken_ms = kTextUntakenMsMax + 1}, false);
  EXPECT_FALSE(waiting.ok);
  EXPECT_FALSE(waiting.ready);
  EXPECT_EQ(waiting.reason,
            "a text worker has taken none of the requests that wait for it for 10 s");
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
  EXPECT_TRUE(HealthOf({}, {}, true).ok);
  EXPECT_FALSE(HealthOf({}, {}, true).ready);
  EXPECT_EQ(HealthOf({}, {}, true).reason, "draining");
  EXPECT_FALSE(HealthOf({.paused = true}, {}, false).ready);
  EXPECT_EQ(HealthOf({.paused = true}, {}, false).reason, "paused");
}

}  // namespace
}  // namespace sluice::engine
