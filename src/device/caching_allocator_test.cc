#include "device/caching_allocator.h"

#include <gtest/gtest.h>

#include <random>

namespace sluice::device {
namespace {

constexpr CachingAllocator::Options kOptions = {
    .alignment = 16, .segment_bytes = 1024, .large_bytes = 512, .large_step = 64};

// Addresses that nobody dereferences, up to a limit of bytes.
class FakeSource : public SegmentSource {
 public:
  Result<std::byte*> Obtain(size_t bytes) override {
    if (bytes > limit - held) return Status(StatusCode::kOutOfMemory, "the fake is full");
    held += bytes;
    ++obtained;
    next_ += (bytes / 4096 + 1) * 4096;
    return reinterpret_cast<std::byte*>(next_ - (bytes / 4096 + 1) * 4096);
  }
  void Release(std::byte*, size_t bytes) override { held -= bytes; }

  size_t limit = 1 << 20, held = 0;
  int obtained = 0;

 private:
  uintptr_t next_ = 1 << 20;
};

class CachingAllocatorTest : public ::testing::Test {
 protected:
  ~CachingAllocatorTest() override { EXPECT_EQ(allocator_.CheckInvariants(), ""); }
  CachingAllocator::Range Get(size_t bytes) {
    const auto range = allocator_.Allocate(bytes);
    EXPECT_TRUE(range.ok()) << range.status().message();
    EXPECT_EQ(allocator_.CheckInvariants(), "");
    return range.ok() ? *range : CachingAllocator::Range();
  }

  FakeSource source_;
  CachingAllocator allocator_{&source_, kOptions};
};

TEST_F(CachingAllocatorTest, SmallRequestsShareASegmentAndAreAligned) {
  const auto a = Get(1), b = Get(17), c = Get(0);
  EXPECT_EQ(b.data - a.data, 16);
  EXPECT_EQ(c.data - a.data, 48);
  EXPECT_EQ(c.segment, a.segment);
  EXPECT_EQ(source_.obtained, 1);
  EXPECT_EQ(allocator_.stats().used_bytes, 64u);
}

TEST_F(CachingAllocatorTest, FreedNeighboursBecomeOnePiece) {
  const auto a = Get(256), b = Get(256), c = Get(256), d = Get(256);
  allocator_.Free(a.data);
  allocator_.Free(c.data);
  allocator_.Free(b.data);
  EXPECT_EQ(allocator_.CheckInvariants(), "");
  const auto again = Get(400);
  EXPECT_EQ(again.data, a.data);
  EXPECT_TRUE(again.reused);
  EXPECT_EQ(source_.obtained, 1);
  allocator_.Free(d.data);
}

TEST_F(CachingAllocatorTest, TheSmallestPieceThatFitsIsTaken) {
  const auto a = Get(400), b = Get(16), c = Get(64), d = Get(16);
  allocator_.Free(a.data);
  allocator_.Free(c.data);
  EXPECT_EQ(Get(48).data, c.data);
  EXPECT_EQ(Get(80).data, a.data);
  EXPECT_NE(b.data, d.data);
}

TEST_F(CachingAllocatorTest, ALargeRequestHasItsOwnSegmentWhichIsKept) {
  const auto a = Get(600);
  EXPECT_EQ(a.data, a.segment);
  EXPECT_FALSE(a.reused);
  EXPECT_EQ(allocator_.stats().segment_bytes, 640u);
  allocator_.Free(a.data);
  const auto again = Get(580);
  EXPECT_EQ(again.data, a.data);
  EXPECT_TRUE(again.reused);
  EXPECT_EQ(source_.obtained, 1);
}

TEST_F(CachingAllocatorTest, ALargeSegmentDoesNotServeARequestThatWastesIt) {
  allocator_.Free(Get(4000).data);
  Get(600);
  Get(16);
  EXPECT_EQ(source_.obtained, 3) << "neither the small nor the smaller large one takes 4032 bytes";
}

TEST_F(CachingAllocatorTest, UnusedSegmentsAreReleasedBeforeItFails) {
  source_.limit = 2048;
  const auto a = Get(1000), b = Get(1000);
  allocator_.Free(a.data);
  EXPECT_EQ(allocator_.Allocate(2048).status().code(), StatusCode::kOutOfMemory);
  EXPECT_EQ(allocator_.stats().segments, 1u) << "what nobody used is gone";
  EXPECT_EQ(allocator_.CheckInvariants(), "");
  Get(1024);
  allocator_.Free(b.data);
}

TEST_F(CachingAllocatorTest, ARequestThatNoMemoryHoldsIsAnError) {
  EXPECT_EQ(allocator_.Allocate(~size_t{0}).status().code(), StatusCode::kOutOfMemory);
  EXPECT_EQ(allocator_.stats().used_bytes, 0u);
}

TEST_F(CachingAllocatorTest, RandomTrafficKeepsTheInvariants) {
  std::mt19937 random(1);
  std::vector<std::pair<std::byte*, size_t>> live;
  for (int step = 0; step < 3000; ++step) {
    if (live.empty() || random() % 5 < 3) {
      const size_t bytes = random() % 8 == 0 ? 512 + random() % 4000 : random() % 500;
      const auto range = allocator_.Allocate(bytes);
      if (!range.ok()) continue;
      for (const auto& [data, size] : live)
        ASSERT_TRUE(range->data + bytes <= data || data + size <= range->data);
      live.emplace_back(range->data, bytes);
    } else {
      const size_t at = random() % live.size();
      allocator_.Free(live[at].first);
      live.erase(live.begin() + static_cast<std::ptrdiff_t>(at));
    }
    ASSERT_EQ(allocator_.CheckInvariants(), "") << "step " << step;
  }
  for (const auto& [data, size] : live) allocator_.Free(data);
  EXPECT_EQ(allocator_.stats().used_bytes, 0u);
  EXPECT_EQ(allocator_.stats().free_bytes(), source_.held);
  allocator_.ReleaseUnused();
  EXPECT_EQ(source_.held, 0u);
}

TEST(CachingAllocatorLifeTest, GoesAndGivesAllBack) {
  FakeSource source;
  {
    CachingAllocator allocator(&source, kOptions);
    ASSERT_TRUE(allocator.Allocate(10).ok());
    ASSERT_TRUE(allocator.Allocate(1000).ok());
    EXPECT_EQ(source.held, 2048u) << "1024 shared and 1024 for the large one";
  }
  EXPECT_EQ(source.held, 0u);
}

}  // namespace
}  // namespace sluice::device
