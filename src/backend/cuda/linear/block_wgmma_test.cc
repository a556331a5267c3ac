// Which products of W in blocks run by warpgroups, without a GPU.
#include "backend/cuda/linear/block_wgmma.h"

#include <gtest/gtest.h>

#include "backend/cuda/linear/block_wgmma_params.h"

namespace sluice::cuda {
namespace {

constexpr int kUnits = 132;  // multiprocessors of an H200
constexpr int kSharedMax = 227 << 10;

bool Suits(int64_t m, int64_t n, int64_t k) {
  return SuitsBlockWgmma({.m = m, .n = n, .k = k, .compute_units = kUnits});
}

TEST(BlockWgmma, EveryFormatOfBlocksHasAKernelThatFitsSharedMemory) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto weight = static_cast<DType>(i);
    const bool blocks =
        IsQuantized(weight) && FindLinearFamily(LinearArithmetic::kBf16, weight) != nullptr;
    EXPECT_EQ(BlockWgmmaFunction(weight) != nullptr, blocks) << Name(weight);
    if (!blocks) continue;
    EXPECT_EQ(BlockElements(weight), Info(weight).block) << Name(weight);
    EXPECT_LE(BlockSharedBytes(weight), kSharedMax) << Name(weight);
  }
}

TEST(BlockWgmma, ManyTokensAreTakenAndFewAreNot) {
  for (const auto& [n, k] : {std::pair{6144, 4096}, {4096, 4096}, {28672, 4096}, {4096, 14336}}) {
    EXPECT_TRUE(Suits(2048, n, k)) << n;
    EXPECT_TRUE(Suits(512, n, k)) << n;
    EXPECT_FALSE(Suits(64, n, k)) << n;
  }
  EXPECT_TRUE(Suits(128, 28672, 4096));
  EXPECT_FALSE(Suits(128, 4096, 4096)) << "32 tiles leave most of the device idle";
}

TEST(BlockWgmma, ScratchHoldsTheCopyAndSumsOfWholeTiles) {
  ops::Linear::Desc desc;
  desc.k = 4096;
  desc.weight = DType::kQ4_0;  // no minimums
  EXPECT_EQ(BlockWgmmaScratchBytes(desc, 100), 100u * 4096 * 2);
  desc.weight = DType::kQ4_K;
  EXPECT_EQ(BlockWgmmaScratchBytes(desc, 100), 100u * 4096 * 2 + 4096 / 32 * 128 * 4);
  desc.weight = DType::kQ2_K;
  EXPECT_EQ(BlockWgmmaScratchBytes(desc, 129), 129u * 4096 * 2 + 4096 / 16 * 256 * 4);
}

}  // namespace
}  // namespace sluice::cuda
