#include "exec/step_timer.h"

#include <gtest/gtest.h>

#include "ops/queued_device_fixture.h"

namespace sluice::exec {
namespace {

struct Timed {
  ops::QueuedDevice device{ops::QueuedDevice::Options{}};
  std::unique_ptr<device::Stream> stream = std::move(device.CreateStream().value());
  std::unique_ptr<StepTimer> timer = std::move(StepTimer::Make(device).value());

  StepTimer::Marks Marks() { return std::move(timer->MakeMarks().value()); }
  void Begin(double at, StepTimer::Marks* marks) {
    device.now_s = at;
    ASSERT_TRUE(marks->Begin(*stream).ok());
  }
  void End(double at, StepTimer::Marks* marks) {
    device.now_s = at;
    ASSERT_TRUE(marks->End(*stream).ok());
  }
};

TEST(StepTimer, GapsBetweenStepsAreIdle) {
  Timed t;
  StepTimer::Marks marks = t.Marks();
  t.Begin(10, &marks);
  t.End(13, &marks);
  t.timer->Finished(true, &marks);
  EXPECT_EQ(t.timer->times().busy_s, 3);
  EXPECT_EQ(t.timer->times().idle_s, 0);
  t.Begin(13.5, &marks);
  t.End(15, &marks);
  t.timer->Finished(true, &marks);
  EXPECT_EQ(t.timer->times().busy_s, 4.5);
  EXPECT_EQ(t.timer->times().idle_s, 0.5);
}

TEST(StepTimer, TwoStepsInFlightKeepTheirTimes) {
  Timed t;
  StepTimer::Marks marks[] = {t.Marks(), t.Marks()};
  double at = 0;
  t.Begin(at, &marks[0]);
  t.End(at += 1, &marks[0]);
  for (int step = 1; step < 10; ++step) {
    t.Begin(at += 0.25, &marks[step % 2]);
    t.End(at += 1, &marks[step % 2]);
    t.timer->Finished(true, &marks[(step - 1) % 2]);
    EXPECT_EQ(t.timer->times().busy_s, step);
    EXPECT_EQ(t.timer->times().idle_s, 0.25 * (step - 1));
  }
}

TEST(StepTimer, AFailedStepCountsForNothing) {
  Timed t;
  StepTimer::Marks marks = t.Marks();
  t.Begin(0, &marks);
  t.End(1, &marks);
  t.timer->Finished(true, &marks);
  t.Begin(5, &marks);  // fails before its end
  t.Begin(6, &marks);
  t.End(7, &marks);
  t.timer->Finished(false, &marks);
  t.Begin(8, &marks);
  t.End(9, &marks);
  t.timer->Finished(true, &marks);
  EXPECT_EQ(t.timer->times().busy_s, 2);
  EXPECT_EQ(t.timer->times().idle_s, 0);
}

}  // namespace
}  // namespace sluice::exec
