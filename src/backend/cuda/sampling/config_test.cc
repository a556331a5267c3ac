#include "backend/cuda/sampling/config.h"

#include <gtest/gtest.h>

#include "backend/cuda/sampling/params.h"

namespace sluice::cuda {
namespace {

TEST(SampleConfigTest, SlicesCoverTheVocabularyInWholeRounds) {
  for (const int64_t vocab : {1, 511, 512, 4096, 4097, 49152, 128256, 151936, 262144}) {
    EXPECT_GE(SampleSlice(vocab) * kSampleCluster, vocab);
    EXPECT_EQ(SampleSlice(vocab) % kSampleThreads, 0) << vocab;
    EXPECT_LE(SampleSharedBytes(vocab), kSampleSharedMax) << vocab;
    EXPECT_TRUE(SampleSupports({vocab, 20}, {}).ok) << vocab;
  }
}

TEST(SampleConfigTest, WhatDoesNotFitIsDeclinedWithAReason) {
  EXPECT_FALSE(SampleSupports({0, 20}, {}).ok);
  EXPECT_FALSE(SampleSupports({128256, 20, /*filtered=*/true}, {}).ok);
  EXPECT_FALSE(SampleSupports({1 << 20, 20}, {}).ok);
  EXPECT_FALSE(SampleSupports({128256, kSampleTopMax + 1}, {}).ok);
  EXPECT_TRUE(SampleSupports({100, 1 << 20}, {}).ok);
  EXPECT_NE(SampleSupports({1 << 20, 20}, {}).reason.find("1048576"), std::string::npos);
}

}  // namespace
}  // namespace sluice::cuda
