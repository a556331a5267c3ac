#include "backend/xpu/free_memory.h"

#include <gtest/gtest.h>

namespace sluice::xpu {
namespace {

constexpr size_t kGiB = size_t{1} << 30;

TEST(FreeMemoryTest, APartOfADevicesOwnMemoryIsLeftToOthers) {
  EXPECT_EQ(FreeOfDevice(16 * kGiB, 0), 15 * kGiB);
  EXPECT_EQ(FreeOfDevice(16 * kGiB, 10 * kGiB), 5 * kGiB);
  EXPECT_EQ(FreeOfDevice(16 * kGiB, 15 * kGiB), 0u);
  EXPECT_EQ(FreeOfDevice(16 * kGiB, 16 * kGiB), 0u) << "we hold some of the reserve";
  EXPECT_EQ(FreeOfDevice(0, 0), 0u);
}

TEST(FreeMemoryTest, OfTheHostsMemoryLinuxKnowsWhatOthersHold) {
  EXPECT_EQ(FreeOfHost(64 * kGiB, 10 * kGiB, 20 * kGiB), 20 * kGiB);
  EXPECT_EQ(FreeOfHost(64 * kGiB, 60 * kGiB, 20 * kGiB), 4 * kGiB);
  EXPECT_EQ(FreeOfHost(64 * kGiB, 65 * kGiB, 20 * kGiB), 0u);
}

}  // namespace
}  // namespace sluice::xpu
