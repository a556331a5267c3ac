#include "files/hf_lightning.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "base/json.h"
#include "files/model_config.h"
#include "files/test_configs.h"

namespace sluice::files {
namespace {

using ::testing::HasSubstr;

Result<ModelConfig> MiniMax(const std::string& text) {
  Json json = {{"architectures", {"MiniMaxForCausalLM"}},
               {"vocab_size", 100},
               {"hidden_size", 64},
               {"num_hidden_layers", 4},
               {"num_attention_heads", 4},
               {"num_key_value_heads", 2}};
  return testing::ConfigWith(std::move(json), text);
}
ModelConfig GoodMiniMax(const std::string& text) { return testing::GoodConfig(MiniMax(text)); }
std::string MiniMaxError(const std::string& text) { return testing::ConfigError(MiniMax(text)); }
std::string LightningKinds(const ModelConfig& config) {
  std::string text;
  for (const LayerConfig& layer : config.layers) {
    text += layer.kind == LayerKind::kLightning ? 'l' : layer.kind == LayerKind::kFull ? 'f' : '?';
    if (layer.use_rope) text += 'r';
  }
  return text;
}

TEST(HfLightningTest, ReadsHeadsLayersAndWhatBlocksAddTo) {
  const ModelConfig config = GoodMiniMax(R"({"layer_types":["linear_attention","linear_attention",
      "full_attention","linear_attention"],"full_attn_alpha_factor":3.5,"full_attn_beta_factor":1,
      "linear_attn_alpha_factor":2.5,"mlp_alpha_factor":1.5,"mlp_beta_factor":1.0,
      "sliding_window":null,"head_dim":24,"num_local_experts":6,"num_experts_per_tok":3})");
  EXPECT_EQ(config.architecture, Architecture::kMiniMax);
  EXPECT_EQ(LightningKinds(config), "llfrl");
  EXPECT_EQ(config.linear.key_heads, 4);
  EXPECT_EQ(config.linear.value_heads, 4);
  EXPECT_EQ(config.linear.key_head_dim, 24);
  EXPECT_EQ(config.linear.value_head_dim, 24);
  EXPECT_EQ(config.linear.conv_kernel, 0);
  EXPECT_EQ(config.linear.gates(), 0);
  EXPECT_EQ(config.layers[0].mixer_residual, 2.5f);
  EXPECT_EQ(config.layers[2].mixer_residual, 3.5f);
  EXPECT_EQ(config.layers[2].mlp_residual, 1.5f);
  EXPECT_EQ(config.experts.count, 6);
  EXPECT_TRUE(config.layers[0].experts);
}

TEST(HfLightningTest, WithoutNamesEveryOtherLayerIsLinear) {
  const ModelConfig config = GoodMiniMax("{}");
  EXPECT_EQ(LightningKinds(config), "frlfrl");
  EXPECT_EQ(config.layers[3].mixer_residual, 1.0f);
}

TEST(HfLightningTest, WhatIsNotSupportedIsNamed) {
  EXPECT_THAT(MiniMaxError(R"({"mlp_beta_factor":0.5})"),
              HasSubstr("\"mlp_beta_factor\" is 0.5; only 1 is supported"));
  EXPECT_THAT(MiniMaxError(R"({"full_attn_alpha_factor":0})"),
              HasSubstr("\"full_attn_alpha_factor\" is 0"));
  EXPECT_THAT(MiniMaxError(R"({"sliding_window":32})"), HasSubstr("\"sliding_window\""));
  EXPECT_THAT(MiniMaxError(R"({"hidden_act":"gelu"})"), HasSubstr("must be silu"));
  EXPECT_THAT(MiniMaxError(R"({"layer_types":["mamba"]})"), HasSubstr("\"layer_types\""));
}

}  // namespace
}  // namespace sluice::files
