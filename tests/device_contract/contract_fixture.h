// A device of every linked backend, and the queued test device with and without pinned memory, for
// tests that ask the same of each. CUDA tests say so and pass where there is no GPU; the other
// devices must be there.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <initializer_list>
#include <string>
#include <vector>

#include "device/backend.h"
#include "ops/queued_device_fixture.h"

namespace sluice::device {

inline std::vector<std::string> ContractDevices() {
  std::vector<std::string> names = {"queued", "queued_plain"};
  for (const Backend* backend : LinkedBackends()) names.emplace_back(ToString(backend->kind()));
  return names;
}

// The backend of a name; null for the queued device, which is none.
inline const Backend* BackendOf(const std::string& name) {
  for (const Backend* backend : LinkedBackends()) {
    if (ToString(backend->kind()) == name) return backend;
  }
  return nullptr;
}

class ContractTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const Backend* const backend = BackendOf(GetParam());
    if (backend == nullptr) {
      ops::QueuedDevice::Options options;
      options.pinned_memory = GetParam() == "queued";
      device_ = std::make_unique<ops::QueuedDevice>(options);
    } else {
      const auto visible = ReadVisibleDevices(backend->kind(), ProcessEnvironment());
      ASSERT_TRUE(visible.ok()) << visible.status().message();
      auto opened = backend->Open(*visible, 0, {});
      if (!opened.ok() && backend->kind() == DeviceKind::kCuda)
        GTEST_SKIP() << opened.status().message();
      ASSERT_TRUE(opened.ok()) << opened.status().message();
      device_ = std::move(opened).value();
    }
    stream_ = std::move(device_->CreateStream()).value();
  }
  void TearDown() override {
    stream_.reset();
    device_.reset();
  }

  Buffer Make(size_t bytes, MemoryKind kind = MemoryKind::kDevice) {
    auto buffer = device_->Allocate(bytes, kind);
    EXPECT_TRUE(buffer.ok()) << buffer.status().message();
    return buffer.ok() ? std::move(buffer).value() : Buffer();
  }
  // Host memory with bytes seed, seed + 1, ...
  Buffer Numbers(size_t bytes, int seed, MemoryKind kind = MemoryKind::kHost) {
    Buffer buffer = Make(bytes, kind);
    for (size_t i = 0; i < bytes; ++i) buffer.data()[i] = static_cast<std::byte>(seed + i);
    return buffer;
  }
  static View Part(const Buffer& buffer, size_t first, size_t bytes) {
    View view = buffer.view();
    view.data += first;
    view.bytes = bytes;
    return view;
  }
  Status Copy(std::initializer_list<CopyItem> items) {
    return device_->Copy(*stream_, std::span(items.begin(), items.size()));
  }
  // What is there once the stream is done.
  std::vector<int> Read(const View& view) {
    const Buffer host = Make(view.bytes, MemoryKind::kHost);
    const Status status = Copy({{host.view(), view}});
    EXPECT_TRUE(status.ok()) << status.message();
    std::vector<int> values;
    for (size_t i = 0; i < view.bytes; ++i) values.push_back(static_cast<int>(host.data()[i]));
    return values;
  }
  static std::vector<int> Range(size_t count, int first) {
    std::vector<int> values(count);
    for (size_t i = 0; i < count; ++i) values[i] = (first + static_cast<int>(i)) & 255;
    return values;
  }

  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
};

}  // namespace sluice::device
