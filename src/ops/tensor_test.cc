// What Dense finds out about the memory that it is given, in builds that record buffers.
#include "ops/tensor.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "device/device.h"

namespace sluice::ops {
namespace {

struct NoDeleter : device::Buffer::Deleter {
  void Free(const device::View&) override {}
};

class DenseDeathTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!device::kRecordsBuffers) GTEST_SKIP() << "this build records no buffers";
  }
  device::Buffer Make() {
    return {{memory_.data(), memory_.size(), device::MemoryKind::kDevice, {}},
            std::make_shared<NoDeleter>()};
  }
  std::vector<std::byte> memory_ = std::vector<std::byte>(64);
};

TEST_F(DenseDeathTest, MemoryWhoseBufferIsGoneIsRefused) {
  device::View view;
  {
    device::Buffer first = Make();
    const device::Buffer buffer = std::move(first);
    view = buffer.view();
    EXPECT_EQ(Dense(view, DType::kF32, {16}).size(), 16);
  }
  EXPECT_DEATH(Dense(view, DType::kF32, {16}), "its buffer was freed");
  // Not even where another buffer has the same memory now.
  const device::Buffer again = Make();
  EXPECT_DEATH(Dense(view, DType::kF32, {16}), "its buffer was freed");
  EXPECT_EQ(Dense(again.view(), DType::kF32, {16}).size(), 16);
}

TEST_F(DenseDeathTest, AViewIsPartOfItsBuffer) {
  const device::Buffer buffer = Make();
  device::View view = buffer.view();
  view.data += 32;
  EXPECT_DEATH(Dense(view, DType::kF32, {8}), "outside its buffer of 64 bytes");
  view.bytes -= 32;
  EXPECT_EQ(Dense(view, DType::kF32, {8}).size(), 8);
  view.memory = device::MemoryKind::kHost;
  EXPECT_DEATH(Dense(view, DType::kF32, {8}), "memory of another kind");
}

TEST_F(DenseDeathTest, MemoryThatNoBufferGaveIsNotChecked) {
  const device::View view{memory_.data(), memory_.size(), device::MemoryKind::kHost, {}};
  EXPECT_EQ(Dense(view, DType::kF32, {16}).size(), 16);
}

}  // namespace
}  // namespace sluice::ops
