#include "exec/step_timer.h"

#include <gtest/gtest.h>

#include "ops/queued_device_fixture.h"

namespace sluice::exec {
namespace {

struct Timed {
  ops::QueuedDevice device{ops::QueuedDevice::Options{}};
  std::unique_ptr<device::Stream> stream = std::move(device.CreateStream().value());
  std::unique_ptr<StepTimer> timer = std::move(StepTimer::Make(device).value());

  void Begin(double at) {
    device.now_s = at;
    ASSERT_TRUE(timer->Begin(*stream).ok());
  }
  void End(double at) {
    device.now_s = at;
    ASSERT_TRUE(timer->End(*stream).ok());
    timer->Launched();
  }
};

TEST(StepTimer, GapsBetweenStepsAreIdle) {
  Timed t;
  t.Begin(10);
  t.End(13);
  t.timer->Finished(true);
  EXPECT_EQ(t.timer->times().busy_s, 3);
  EXPECT_EQ(t.timer->times().idle_s, 0);
  t.Begin(13.5);
  t.End(15);
  t.timer->Finished(true);
  EXPECT_EQ(t.timer->times().busy_s, 4.5);
  EXPECT_EQ(t.timer->times().idle_s, 0.5);
}

TEST(StepTimer, TwoStepsInFlightKeepTheirTimes) {
  Timed t;
  double at = 0;
  t.Begin(at);
  t.End(at += 1);
  for (int step = 1; step < 10; ++step) {
    t.Begin(at += 0.25);
    t.End(at += 1);
    t.timer->Finished(true);
    EXPECT_EQ(t.timer->times().busy_s, step);
    EXPECT_EQ(t.timer->times().idle_s, 0.25 * (step - 1));
  }
}

TEST(StepTimer, AFailedStepCountsForNothing) {
  Timed t;
  t.Begin(0);
  t.End(1);
  t.timer->Finished(true);
  t.Begin(5);  // fails before its end
  t.Begin(6);
  t.End(7);
  t.timer->Finished(false);
  t.Begin(8);
  t.End(9);
  t.timer->Finished(true);
  EXPECT_EQ(t.timer->times().busy_s, 2);
  EXPECT_EQ(t.timer->times().idle_s, 0);
}

}  // namespace
}  // namespace sluice::exec
