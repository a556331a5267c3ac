#include "backend/cuda/probe.h"

#include <gtest/gtest.h>

namespace sluice::cuda {

const device::Backend* BackendInstance();

namespace {

TEST(VisibleListTest, NumbersAndNamesInOrderWithoutBlanks) {
  device::VisibleDevices visible;
  visible.restricted = true;
  EXPECT_EQ(VisibleList(visible), "") << "no device is visible";
  visible.entries = {{.device = 2}, {.name = "GPU-8932f937"}, {.device = 0}};
  EXPECT_EQ(VisibleList(visible), "2,GPU-8932f937,0");
}

// Holds with and without a driver.
TEST(CudaBackendTest, GivesDevicesOrAReason) {
  const auto devices = BackendInstance()->Probe({});
  EXPECT_EQ(devices.empty(), !BackendInstance()->AbsentReason().empty())
      << BackendInstance()->AbsentReason();
  const auto opened = BackendInstance()->Open({}, 1000, {});
  ASSERT_EQ(opened.status().code(), StatusCode::kDevice);
  EXPECT_NE(opened.status().message().find("CUDA device 1000 does not exist"), std::string::npos)
      << opened.status().message();
}

}  // namespace
}  // namespace sluice::cuda
