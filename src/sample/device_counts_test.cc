// How many slots have counts on the device. What they do there is the sampler's test.
#include "sample/device_counts.h"

#include <gtest/gtest.h>

namespace sluice::sample {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

TEST(DeviceCounts, AllSlotsHaveCountsWhileTheseAreSmall) {
  EXPECT_EQ(DeviceCounts::Rows(49152, 64, 64 * kMiB), 64);
  EXPECT_EQ(DeviceCounts::Rows(151936, 64, 64 * kMiB), 64);
  EXPECT_EQ(DeviceCounts::Rows(151936, 256, 64 * kMiB), 110);
  EXPECT_EQ(DeviceCounts::Rows(1 << 24, 256, 64 * kMiB), 4);  // one would fit
  EXPECT_EQ(DeviceCounts::Rows(151936, 3, 0), 3);
}

TEST(DeviceCounts, TheirMemoryIsARowForEach) {
  const size_t one = DeviceCounts::Bytes(1024, 1), nine = DeviceCounts::Bytes(1024, 9);
  EXPECT_NEAR(static_cast<double>(nine - one), 8 * 4096.0, 256.0);
}

}  // namespace
}  // namespace sluice::sample
