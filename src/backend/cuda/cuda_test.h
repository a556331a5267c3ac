// The fixture of all tests on a GPU: the first CUDA device, a stream and memory there. Where there
// is none, its tests say so and pass.
#pragma once

#include <gtest/gtest.h>

#include <optional>

#include "backend/cuda/device_fixture.h"

namespace sluice::cuda {

class CudaTest : public ::testing::Test {
 protected:
  // Without a device device_ stays null.
  void SetUp() override {
    if (!HasDevice()) GTEST_SKIP() << CudaBackend().AbsentReason();
    memory_.emplace();
    device_ = &memory_->device();
    stream_ = &memory_->stream();
  }
  void TearDown() override { memory_.reset(); }

  std::optional<DeviceMemory> memory_;
  device::Device* device_ = nullptr;
  device::Stream* stream_ = nullptr;
};

}  // namespace sluice::cuda
