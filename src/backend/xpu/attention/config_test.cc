#include "backend/xpu/attention/config.h"

#include <gtest/gtest.h>

#include <limits>

namespace sluice::xpu {
namespace {

ops::Attention::Desc Heads(int q_heads, int kv_heads, int head_dim) {
  ops::Attention::Desc desc;
  desc.q_heads = q_heads;
  desc.kv_heads = kv_heads;
  desc.head_dim = head_dim;
  desc.kv = {DType::kF16, kv_heads, head_dim, head_dim, 16};
  return desc;
}

device::DeviceFacts Facts(bool on_host) {
  device::DeviceFacts facts;
  facts.on_host_processor = on_host;
  return facts;
}

TEST(XpuAttentionConfigTest, AGroupPerRowAndKvHead) {
  for (const int64_t tokens : {0, 1, 64, 5000}) {
    const AttentionConfig config = ConfigureAttention(Heads(32, 8, 128), tokens, 100, Facts(false));
    EXPECT_EQ(config.shape.groups[0], 8u);
    EXPECT_EQ(config.shape.groups[1], static_cast<size_t>(tokens));
    EXPECT_EQ(config.shape.items, 8u);
  }
  EXPECT_EQ(ConfigureAttention(Heads(32, 8, 128), 1, 100, Facts(true)).shape.items, 1u);
}

TEST(XpuAttentionConfigTest, BatchAndLengthMakeNoOtherProgram) {
  const ops::Attention::Desc desc = Heads(32, 8, 128);
  const std::string options = ConfigureAttention(desc, 1, 10, Facts(true)).options;
  EXPECT_EQ(ConfigureAttention(desc, 64, 8000, Facts(true)).options, options);
  ops::Attention::Desc windowed = desc;
  windowed.window = 100;
  windowed.scale = 0.3f;
  EXPECT_EQ(ConfigureAttention(windowed, 1, 10, Facts(true)).options, options);
  ops::Attention::Desc other = desc;
  other.soft_cap = 30.0f;
  EXPECT_NE(ConfigureAttention(other, 1, 10, Facts(true)).options, options);
  other = desc;
  other.kv.dtype = DType::kI8;
  EXPECT_NE(ConfigureAttention(other, 1, 10, Facts(true)).options.find("SCALES=1"),
            std::string::npos);
}

TEST(XpuAttentionConfigTest, TheTablesRoomIsBoundedByWhatAKernelCounts) {
  const ops::Attention::Desc desc = Heads(4, 4, 64);
  EXPECT_EQ(ConfigureAttention(desc, 1, 10, Facts(true)).table_tokens, 160);
  EXPECT_EQ(ConfigureAttention(desc, 1, int64_t{1} << 30, Facts(true)).table_tokens,
            std::numeric_limits<int32_t>::max());
}

TEST(XpuAttentionConfigTest, PositionsAreScoredInPiecesThatNoLengthChanges) {
  ops::IndexScores::Desc desc = {.heads = 64, .head_dim = 128};
  desc.kv = {DType::kBF16, 1, 128, 0, 16};
  const AttentionConfig config = ConfigureIndexScores(desc, 32, 163840, 20000, Facts(false));
  EXPECT_EQ(config.shape.groups[0], 2560u);
  EXPECT_EQ(config.shape.groups[1], 32u);
  EXPECT_EQ(config.table_tokens, 320000);
  EXPECT_EQ(ConfigureIndexScores(desc, 1, 10, 1, Facts(false)).options, config.options);
  // A row without positions still has its length written.
  EXPECT_EQ(ConfigureIndexScores(desc, 1, 0, 1, Facts(false)).shape.groups[0], 1u);
  EXPECT_EQ(ConfigureTopK(32, Facts(true)).shape.items, 1u);
  EXPECT_EQ(ConfigureTopK(32, Facts(false)).shape.groups[0], 32u);
}

TEST(XpuAttentionConfigTest, HeadsThatDoNotFitAWorkItemAreDeclined) {
  EXPECT_TRUE(AttentionSupports(Heads(16, 1, 256), Facts(true)).ok);
  EXPECT_FALSE(AttentionSupports(Heads(17, 1, 64), Facts(true)).ok);
  EXPECT_TRUE(AttentionSupports(Heads(8, 1, 512), Facts(true)).ok);
  EXPECT_FALSE(AttentionSupports(Heads(9, 1, 512), Facts(true)).ok);
  EXPECT_FALSE(AttentionSupports(Heads(1, 1, 513), Facts(true)).ok);
  EXPECT_FALSE(AttentionSupports(Heads(3, 2, 64), Facts(true)).ok) << "as the reference does";
}

}  // namespace
}  // namespace sluice::xpu
