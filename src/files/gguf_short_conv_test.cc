#include "files/gguf_short_conv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "files/test_configs.h"

namespace sluice::files {
namespace {

using testing::ErrorOf;
using testing::GgufWriter;
using testing::Good;
using ::testing::HasSubstr;
using testing::kInt32;

GgufWriter Lfm2(const std::vector<int32_t>& kv_heads, uint32_t taps = 3) {
  GgufWriter file = testing::TinyGguf("lfm2");
  std::erase_if(file.keys, [](const auto& key) { return key.name.ends_with("head_count_kv"); });
  return file.Array("lfm2.attention.head_count_kv", kInt32, kv_heads)
      .U32("lfm2.shortconv.l_cache", taps);
}

TEST(GgufShortConvTest, LayersWithoutKvHeadsHaveAConvolution) {
  const ModelConfig config = Good(Lfm2({0, 2}, 4));
  EXPECT_EQ(config.architecture, Architecture::kLfm2);
  EXPECT_EQ(config.layers[0].kind, LayerKind::kShortConv);
  EXPECT_EQ(config.layers[1].kind, LayerKind::kFull);
  EXPECT_EQ(config.num_kv_heads, 2);
  EXPECT_EQ(config.short_conv.kernel, 4);
  EXPECT_FALSE(config.short_conv.bias);
  EXPECT_EQ(config.intermediate_size, 96);
  EXPECT_FALSE(config.rope.interleaved);
  EXPECT_TRUE(
      Good(Lfm2({0, 2}).Add("blk.0.shortconv.conv.bias", DType::kF32, {64})).short_conv.bias);
  EXPECT_EQ(Good(Lfm2({0, 0})).num_kv_heads, 4);  // which no layer has
}

TEST(GgufShortConvTest, ExpertsAreChosenByTheSigmoidWithABias) {
  GgufWriter file = testing::TinyGguf("lfm2moe");
  std::erase_if(file.keys, [](const auto& key) { return key.name.ends_with("head_count_kv"); });
  file.Array<int32_t>("lfm2moe.attention.head_count_kv", kInt32, {0, 2})
      .U32("lfm2moe.shortconv.l_cache", 3)
      .U32("lfm2moe.expert_count", 8)
      .U32("lfm2moe.expert_used_count", 2)
      .U32("lfm2moe.expert_feed_forward_length", 48)
      .F32("lfm2moe.expert_weights_scale", 1.5f)
      .Add("blk.1.ffn_gate_inp.weight", DType::kF32, {8, 64});
  const ModelConfig config = Good(file);
  EXPECT_FALSE(config.layers[0].experts);
  EXPECT_TRUE(config.layers[1].experts);
  EXPECT_EQ(config.experts.width, 48);
  EXPECT_EQ(config.experts.score, RouterScore::kSigmoid);
  EXPECT_TRUE(config.experts.bias && config.experts.renormalize);
  EXPECT_EQ(config.experts.scale, 1.5f);
}

TEST(GgufShortConvTest, RefusesWhatItCannotBe) {
  EXPECT_THAT(ErrorOf(Lfm2({1, 2})), HasSubstr("gives layer 0 1 heads"));
  EXPECT_THAT(ErrorOf(Lfm2({-1, -1})), HasSubstr("gives layer 0 -1 heads"));
  EXPECT_THAT(ErrorOf(Lfm2({0, 1025})), HasSubstr("gives layer 1 1025 heads"));
  EXPECT_THAT(ErrorOf(Lfm2({0, 3})), HasSubstr("cannot be shared evenly"));
  EXPECT_THAT(ErrorOf(Lfm2({0})), HasSubstr("not an array of 2 integers"));
  EXPECT_THAT(ErrorOf(testing::TinyGguf("lfm2").U32("lfm2.shortconv.l_cache", 3)),
              HasSubstr("\"lfm2.attention.head_count_kv\" is not an array"));
  EXPECT_THAT(ErrorOf(testing::TinyGguf("lfm2")),
              HasSubstr("\"lfm2.shortconv.l_cache\" is missing"));
  EXPECT_THAT(ErrorOf(Lfm2({0, 2}, 1)), HasSubstr("l_cache\" is 1; 2 to 8 are legal"));
  EXPECT_THAT(ErrorOf(Lfm2({0, 2}).U32("lfm2.attention.sliding_window", 16)),
              HasSubstr("\"lfm2.attention.sliding_window\" is 16"));
}

}  // namespace
}  // namespace sluice::files
