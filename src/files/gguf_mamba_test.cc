#include "files/gguf_mamba.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "files/test_configs.h"

namespace sluice::files {
namespace {

using testing::GgufWriter;
using ::testing::HasSubstr;

constexpr uint32_t kInt32 = 5;  // GGUF's number of the type

// Four heads of `inner` / 4 in two groups, states of 24.
GgufWriter WithStates(GgufWriter file, const std::string& prefix, uint32_t inner = 128) {
  return file.U32(prefix + ".ssm.conv_kernel", 4)
      .U32(prefix + ".ssm.inner_size", inner)
      .U32(prefix + ".ssm.state_size", 24)
      .U32(prefix + ".ssm.time_step_rank", 4)
      .U32(prefix + ".ssm.group_count", 2);
}
GgufWriter Hybrid(const std::vector<int32_t>& kv_heads) {
  GgufWriter file = testing::TinyGguf("granitehybrid");
  std::erase_if(file.keys, [](const auto& key) { return key.name.ends_with("head_count_kv"); });
  return WithStates(file.Array("granitehybrid.attention.head_count_kv", kInt32, kv_heads),
                    "granitehybrid");
}

ModelConfig Good(const GgufWriter& writer) {
  return testing::GoodConfig(testing::ConfigOf(writer));
}
std::string ErrorOf(const GgufWriter& writer) {
  return testing::ConfigError(testing::ConfigOf(writer));
}

TEST(GgufMambaTest, Mamba2HasNeitherHeadsNorFeedForwardParts) {
  GgufWriter file = testing::TinyGguf("mamba2");
  // As llama.cpp's converter writes them.
  std::erase_if(file.keys, [](const auto& key) {
    return key.name.ends_with("head_count_kv") || key.name.ends_with("head_count") ||
           key.name.ends_with("feed_forward_length");
  });
  file.U32("mamba2.attention.head_count", 0).U32("mamba2.feed_forward_length", 0);
  const ModelConfig config = Good(WithStates(file, "mamba2"));
  EXPECT_EQ(config.architecture, Architecture::kMamba2);
  EXPECT_EQ(config.linear.key_heads, 2);
  EXPECT_EQ(config.linear.value_heads, 4);
  EXPECT_EQ(config.linear.key_head_dim, 24);
  EXPECT_EQ(config.linear.value_head_dim, 32);
  EXPECT_EQ(config.linear.conv_kernel, 4);
  EXPECT_TRUE(config.linear.mamba);
  EXPECT_FALSE(config.linear.conv_bias || config.linear.product_bias);
  EXPECT_EQ(config.intermediate_size, 0);
  for (const LayerConfig& layer : config.layers) {
    EXPECT_EQ(layer.kind, LayerKind::kMamba);
    EXPECT_FALSE(layer.mlp || layer.use_rope);
  }
  EXPECT_TRUE(Good(WithStates(file, "mamba2").Add("blk.1.ssm_conv1d.bias", DType::kF32, {32}))
                  .linear.conv_bias);
  EXPECT_THAT(ErrorOf(WithStates(file, "mamba2", 130)),
              HasSubstr("\"mamba2.ssm.inner_size\" is 130"));
  EXPECT_THAT(ErrorOf(file), HasSubstr("\"mamba2.ssm.conv_kernel\" is missing"));
}

TEST(GgufMambaTest, OfAHybridLayersWithoutKvHeadsHaveAState) {
  const ModelConfig config = Good(Hybrid({0, 2}));
  EXPECT_EQ(config.architecture, Architecture::kGraniteMoeHybrid);
  EXPECT_EQ(config.layers[0].kind, LayerKind::kMamba);
  EXPECT_EQ(config.layers[1].kind, LayerKind::kFull);
  EXPECT_EQ(config.num_kv_heads, 2);
  EXPECT_TRUE(config.layers[0].mlp);
  EXPECT_FALSE(config.layers[1].use_rope);
  EXPECT_TRUE(
      Good(Hybrid({0, 2}).Bool("granitehybrid.rope.scaling.finetuned", true)).layers[1].use_rope);
  EXPECT_THAT(ErrorOf(Hybrid({0, 2})
                          .Bool("granitehybrid.rope.scaling.finetuned", true)
                          .U32("granitehybrid.rope.dimension_count", 8)),
              HasSubstr("\"granitehybrid.rope.dimension_count\" is 8 of the 16"));
  EXPECT_EQ(Good(Hybrid({0, 2}).U32("granitehybrid.expert_shared_feed_forward_length", 40))
                .intermediate_size,
            40);
}

TEST(GgufMambaTest, OfFalconH1ALayerIsTwo) {
  const GgufWriter file = WithStates(testing::TinyGguf("falcon-h1"), "falcon-h1");
  const ModelConfig config = Good(file);
  EXPECT_EQ(config.architecture, Architecture::kFalconH1);
  EXPECT_EQ(config.num_layers, 2 * config.stored_layers());
  EXPECT_EQ(config.layers[0].kind, LayerKind::kMamba);
  EXPECT_EQ(config.layers[1].kind, LayerKind::kFull);
  EXPECT_TRUE(config.BesideLast(1) && !config.BesideLast(2));
  EXPECT_FALSE(config.linear.gated_norm);
  EXPECT_TRUE(
      Good(GgufWriter(file).Add("blk.0.ssm_norm.weight", DType::kF32, {64, 2})).linear.gated_norm);
  // The converter has multiplied the weights.
  EXPECT_TRUE(config.linear.scales.plain());
}

}  // namespace
}  // namespace sluice::files
