#include "backend/cuda/probe.h"

#include <gtest/gtest.h>

namespace sluice::cuda {

const device::Backend* BackendInstance();

namespace {

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
