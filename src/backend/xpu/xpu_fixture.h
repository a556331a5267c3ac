// For tests: the OpenCL device of this machine (PoCL's CPU, where there is no GPU), chosen and run
// as the variables of docs/devices.md say, and arrays on it.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "backend/xpu/device.h"
#include "ops/tensor.h"

namespace sluice::xpu {

// Compiled programs of all tests, in one place that the machine may clear.
inline std::string TestCache() {
  return (std::filesystem::temp_directory_path() / "sluice-xpu-test").string();
}

inline Result<FoundDevice> DeviceForTest() {
  SLUICE_ASSIGN_OR_RETURN(
      const device::VisibleDevices visible,
      device::ReadVisibleDevices(device::DeviceKind::kXpu, device::ProcessEnvironment()));
  return ChooseDevice(visible, 0);
}

inline std::unique_ptr<XpuDevice> OpenForTest(const XpuOptions& options) {
  auto found = DeviceForTest();
  EXPECT_TRUE(found.ok()) << found.status().message();
  if (!found.ok()) return nullptr;
  auto device = XpuDevice::Open(std::move(found).value(), options);
  EXPECT_TRUE(device.ok()) << device.status().message();
  return device.ok() ? std::move(device).value() : nullptr;
}

class XpuTest : public ::testing::Test {
 protected:
  void SetUp() override { Open({.cache_folder = TestCache()}); }
  void Open(const XpuOptions& options) {
    stream_.reset();
    device_ = OpenForTest(options);
    ASSERT_NE(device_, nullptr);
    stream_ = std::move(device_->CreateStream().value());
  }

  template <class T>
  device::View Host(std::vector<T>& values) {
    return {reinterpret_cast<std::byte*>(values.data()), values.size() * sizeof(T),
            device::MemoryKind::kHost, device_->facts().id};
  }
  template <class T>
  device::Buffer Upload(std::vector<T> values) {
    device::Buffer buffer =
        std::move(device_->Allocate(values.size() * sizeof(T), device::MemoryKind::kDevice))
            .value();
    const device::CopyItem item{buffer.view(), Host(values)};
    EXPECT_TRUE(device_->Copy(*stream_, {&item, 1}).ok());
    return buffer;
  }
  template <class T>
  std::vector<T> Download(const device::Buffer& buffer) {
    std::vector<T> values(buffer.bytes() / sizeof(T));
    const device::CopyItem item{Host(values), buffer.view()};
    EXPECT_TRUE(device_->Copy(*stream_, {&item, 1}).ok());
    return values;
  }

  std::unique_ptr<XpuDevice> device_;
  std::unique_ptr<device::Stream> stream_;
};

}  // namespace sluice::xpu
