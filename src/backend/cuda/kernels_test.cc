// How a multiprocessor's memory is shared out, without a GPU.
#include "backend/cuda/kernels.h"

#include <gtest/gtest.h>

namespace sluice::cuda {
namespace {

constexpr unsigned kUnit = 228 << 10;  // of an H200

unsigned Bytes(unsigned block) { return SharedPercent(block, kUnit) * kUnit / 100; }

TEST(SharedPercentTest, TwoThreadBlocksFit) {
  for (unsigned block = 0; block <= 113 << 10; block += 1 << 10) {
    EXPECT_GE(Bytes(block), 2 * block) << block;
    EXPECT_LE(SharedPercent(block, kUnit), 100u) << block;
  }
}

// Kernels of little shared memory ask for the same share, between which nothing has to change.
TEST(SharedPercentTest, TheCacheHasTheRestAndLittleSharedMemoryIsOneShare) {
  EXPECT_EQ(SharedPercent(0, kUnit), SharedPercent(20 << 10, kUnit));
  EXPECT_LT(Bytes(20 << 10), kUnit / 2);
  EXPECT_LT(Bytes(40 << 10), kUnit / 2);
  EXPECT_EQ(SharedPercent(227 << 10, kUnit), 100u);
}

TEST(SharedPercentTest, ADeviceThatDoesNotTellGetsAll) { EXPECT_EQ(SharedPercent(1024, 0), 100u); }

}  // namespace
}  // namespace sluice::cuda
