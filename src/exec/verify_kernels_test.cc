#include "exec/verify_kernels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice::exec {
namespace {

EngineOptions On(const char* device) {
  EngineOptions options;
  options.device = device;
  options.isa = "ref";
  return options;
}

TEST(VerifyKernelsTest, RunsTheCasesOfTheDeviceThatIsNamed) {
  const auto verification = VerifyKernels(On("cpu"), 1, 7);
  ASSERT_TRUE(verification.ok()) << verification.status().message();
  EXPECT_EQ(device::ToString(verification->device), "cpu");
  EXPECT_EQ(verification->failed, 0) << verification->table;
  EXPECT_GT(verification->results.size(), 5u);
  for (const auto& result : verification->results) {
    EXPECT_THAT(verification->table, ::testing::HasSubstr(result.implementation));
  }
}

TEST(VerifyKernelsTest, ADeviceThatIsAbsentIsAnErrorOfTheDevice) {
  EXPECT_EQ(VerifyKernels(On("cuda:63"), 1, 1).status().code(), StatusCode::kDevice);
  EXPECT_EQ(VerifyKernels(On("gpu"), 1, 1).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace sluice::exec
