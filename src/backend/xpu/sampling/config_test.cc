#include "backend/xpu/sampling/config.h"

#include <gtest/gtest.h>

namespace sluice::xpu {
namespace {

device::DeviceFacts Facts(bool on_host) {
  device::DeviceFacts facts;
  facts.on_host_processor = on_host;
  return facts;
}

TEST(XpuSampleConfigTest, ChunksCoverTheVocabulary) {
  for (const bool on_host : {false, true}) {
    for (const int64_t vocab : {1, 15, 16, 17, 1024, 1025, 49152, 151936}) {
      const SampleConfig config = ConfigureSample({vocab, 20}, 3, Facts(on_host));
      const auto items = static_cast<int64_t>(config.shape.items);
      EXPECT_EQ(config.chunk % 16, 0) << vocab;
      EXPECT_GE(config.chunk * items, vocab);
      EXPECT_LT((config.chunk - 16) * items, vocab) << "no smaller chunk would do";
      EXPECT_EQ(config.scratch_bytes, static_cast<size_t>(3 * 2 * config.chunk * items * 4));
    }
  }
}

TEST(XpuSampleConfigTest, AGroupPerRowOfOneProgram) {
  const SampleConfig one = ConfigureSample({49152, 20}, 1, Facts(false));
  const SampleConfig many = ConfigureSample({32000, 0}, 300, Facts(false));
  EXPECT_EQ(one.shape.groups[0], 1u);
  EXPECT_EQ(many.shape.groups[0], 300u);
  EXPECT_EQ(one.options, many.options);
  EXPECT_NE(ConfigureSample({49152, 20}, 1, Facts(true)).options, one.options);
}

TEST(XpuSampleConfigTest, VocabulariesThatAreNoneAreDeclined) {
  EXPECT_TRUE(SampleSupports({int64_t{1} << 29, 0}, Facts(true)).ok);
  EXPECT_FALSE(SampleSupports({(int64_t{1} << 29) + 1, 0}, Facts(true)).ok);
  EXPECT_FALSE(SampleSupports({0, 0}, Facts(true)).ok);
}

}  // namespace
}  // namespace sluice::xpu
