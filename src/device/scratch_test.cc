#include "device/scratch.h"

#include <gtest/gtest.h>

namespace sluice::device {
namespace {

// Counts the bytes that are taken and not freed, and the most of them at a time.
class Heap : public Buffer::Deleter {
 public:
  void Free(const View& view) override {
    now -= view.bytes;
    delete[] view.data;
  }
  size_t now = 0, most = 0;
};

class ScratchMemoryTest : public ::testing::Test {
 protected:
  const std::shared_ptr<Heap> heap_ = std::make_shared<Heap>();
  ScratchMemory scratch_{[this](size_t bytes) -> Result<Buffer> {
    if (bytes > 10'000) return Status(StatusCode::kOutOfMemory, "there is no more");
    heap_->now += bytes;
    heap_->most = std::max(heap_->most, heap_->now);
    return Buffer({new std::byte[bytes], bytes, MemoryKind::kDevice, {}}, heap_);
  }};
};

TEST_F(ScratchMemoryTest, WhatIsReservedIsTakenOnceAndNeverGrows) {
  ASSERT_TRUE(scratch_.Reserve(1000).ok());
  const auto first = scratch_.Take(1);
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(*scratch_.Take(1000), *first);
  const Status more = scratch_.Take(1001).status();
  EXPECT_EQ(more.code(), StatusCode::kFailedPrecondition);
  EXPECT_NE(more.message().find("from 1000 to 1001 bytes"), std::string::npos) << more.message();
  EXPECT_EQ(heap_->most, 1000u);
  EXPECT_EQ(*scratch_.Take(1000), *first) << "what was refused changes nothing";
}

TEST_F(ScratchMemoryTest, BeforeThatItGrowsWithoutKeepingTwo) {
  ASSERT_TRUE(scratch_.Take(100).ok());
  ASSERT_TRUE(scratch_.Take(300).ok());
  EXPECT_EQ(heap_->most, 300u);
  scratch_.Fix();
  EXPECT_TRUE(scratch_.Take(300).ok());
  EXPECT_FALSE(scratch_.Take(301).ok());
}

TEST_F(ScratchMemoryTest, ReservingNothingIsLegalAndFinal) {
  ASSERT_TRUE(scratch_.Reserve(0).ok());
  EXPECT_TRUE(scratch_.Take(0).ok());
  EXPECT_FALSE(scratch_.Take(1).ok());
}

TEST_F(ScratchMemoryTest, AnErrorOfTheDeviceIsReturned) {
  EXPECT_EQ(scratch_.Reserve(20'000).code(), StatusCode::kOutOfMemory);
  EXPECT_TRUE(scratch_.Reserve(5000).ok());
}

}  // namespace
}  // namespace sluice::device
