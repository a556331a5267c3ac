#include "backend/cuda/architecture.h"

#include <gtest/gtest.h>

namespace sluice::cuda {
namespace {

TEST(ArchitectureTest, PlainCodeRunsOnLaterMinorVersionsOfItsMajorOne) {
  EXPECT_TRUE(ArchitectureRuns("80", 8, 0));
  EXPECT_TRUE(ArchitectureRuns("80", 8, 9));
  EXPECT_FALSE(ArchitectureRuns("89", 8, 6));
  EXPECT_FALSE(ArchitectureRuns("80", 9, 0));
  EXPECT_TRUE(ArchitectureRuns("120f", 12, 1));
}

TEST(ArchitectureTest, CodeForOneArchitectureRunsThereAlone) {
  EXPECT_TRUE(ArchitectureRuns("90a", 9, 0));
  EXPECT_FALSE(ArchitectureRuns("100a", 10, 3));
  EXPECT_FALSE(ArchitectureRuns("90a", 10, 0));
  EXPECT_TRUE(ArchitectureRuns("103a", 10, 3));
}

TEST(ArchitectureTest, NonsenseRunsNowhere) {
  EXPECT_FALSE(ArchitectureRuns("", 9, 0));
  EXPECT_FALSE(ArchitectureRuns("90x", 9, 0));
  EXPECT_FALSE(ArchitectureRuns("native", 9, 0));
}

TEST(ArchitectureTest, TheReasonNamesTheDeviceAndTheRemedy) {
  const std::string_view built[] = {"90a", "100a"};
  EXPECT_EQ(WhyNoKernels(built, "NVIDIA H200", 9, 0), "");
  const std::string why = WhyNoKernels(built, "NVIDIA A100", 8, 0);
  EXPECT_NE(why.find("NVIDIA A100 is sm_80"), std::string::npos) << why;
  EXPECT_NE(why.find("SLUICE_CUDA_ARCHITECTURES=80"), std::string::npos) << why;
  EXPECT_NE(why.find("sm_90a, sm_100a"), std::string::npos) << why;
}

}  // namespace
}  // namespace sluice::cuda
