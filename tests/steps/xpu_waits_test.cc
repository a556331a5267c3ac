// How often a decode step on an OpenCL device stops the host: once, for what it has drawn.
#include <gtest/gtest.h>

#include "backend/xpu/opencl.h"
#include "exec/executor_fixture.h"

namespace sluice {
namespace {

int waits = 0;
xpu::OpenClApi driver;

// The driver, with a count of the calls that return when the device is done.
xpu::OpenClApi CountingDriver() {
  driver = xpu::Cl();
  xpu::OpenClApi api = driver;
  api.Finish = [](cl_command_queue queue) -> cl_int {
    ++waits;
    return driver.Finish(queue);
  };
  api.WaitForEvents = [](cl_uint count, const cl_event* events) -> cl_int {
    ++waits;
    return driver.WaitForEvents(count, events);
  };
  api.EnqueueSVMMemcpy = [](cl_command_queue queue, cl_bool blocking, void* to, const void* from,
                            size_t bytes, cl_uint count, const cl_event* list,
                            cl_event* event) -> cl_int {
    waits += blocking == CL_TRUE ? 1 : 0;
    return driver.EnqueueSVMMemcpy(queue, blocking, to, from, bytes, count, list, event);
  };
  return api;
}

// Whether a step is launched before the one before it is finished.
class XpuWaits : public ::testing::TestWithParam<bool> {};

TEST_P(XpuWaits, ADecodeStepStopsTheHostOnce) {
  constexpr int kSequences = 3, kSteps = 40;
  constexpr int kWarm = 6;  // until then programs are built and a graph is recorded
  exec::TinyExecutor tiny("llama", {.device = "xpu"});
  const xpu::OpenClApi api = CountingDriver();
  const xpu::UseOpenCl use(api);
  batch::StepResult result;
  for (int step = 1; step <= kSteps; ++step) {
    exec::PlanBuilder plan(static_cast<uint64_t>(step), 1);
    for (int slot = 0; slot < kSequences; ++slot) {
      if (step == 1) {
        plan.Start(slot, {}, {3 + slot}).Entry(slot, 0, {3 + slot}, {{0}});
      } else {
        plan.Entry(slot, step - 1, {batch::kLastDrawn}, {{0}});
      }
    }
    const int before = waits;
    ASSERT_TRUE(tiny.Launch(plan.plan()).ok());
    if (!GetParam() || step > 1) {
      ASSERT_TRUE(tiny.Finish(&result).ok());
    }
    if (step > kWarm) {
      EXPECT_LE(waits - before, 1) << "step " << step;
    }
  }
  EXPECT_GE(waits, kSteps - 1);
  if (GetParam()) {
    ASSERT_TRUE(tiny.Finish(&result).ok());
  }
}
INSTANTIATE_TEST_SUITE_P(All, XpuWaits, ::testing::Bool(),
                         [](const auto& test) { return test.param ? "Overlapped" : "Alone"; });

}  // namespace
}  // namespace sluice
