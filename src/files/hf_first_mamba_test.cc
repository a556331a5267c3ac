// Mamba, Falcon Mamba and Jamba, whose layers are of Mamba's first form.
#include "files/hf_first_mamba.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/json.h"
#include "files/test_configs.h"

namespace sluice::files {
namespace {

using testing::ConfigError;
using testing::ConfigWith;
using testing::GoodConfig;
using ::testing::HasSubstr;

Json Mamba() {
  return {{"architectures", {"MambaForCausalLM"}},
          {"vocab_size", 100},
          {"hidden_size", 72},
          {"num_hidden_layers", 3}};
}
Json Jamba() {
  return {{"architectures", {"JambaForCausalLM"}},
          {"vocab_size", 100},
          {"hidden_size", 64},
          {"intermediate_size", 96},
          {"num_hidden_layers", 8},
          {"num_attention_heads", 4},
          {"num_key_value_heads", 2},
          {"attn_layer_period", 4},
          {"attn_layer_offset", 2},
          {"num_experts", 6}};
}

TEST(HfFirstMambaTest, MambaHasNeitherHeadsNorFeedForwardParts) {
  const ModelConfig config = GoodConfig(ConfigWith(Mamba(), "{}"));
  EXPECT_EQ(config.architecture, Architecture::kMamba);
  EXPECT_EQ(config.linear.value_width(), 144);
  EXPECT_EQ(config.linear.channels(), 144);
  EXPECT_EQ(config.linear.key_head_dim, 16);
  EXPECT_EQ(config.linear.conv_kernel, 4);
  EXPECT_EQ(config.linear.step_rank, 5);  // a sixteenth, rounded up
  EXPECT_EQ(config.linear.scan_width(), 5 + 2 * 16);
  EXPECT_EQ(config.linear.gates(), 0);
  EXPECT_EQ(config.linear.scan_norms, ScanNorms::kNone);
  EXPECT_TRUE(config.linear.mamba && config.linear.conv_bias && config.tied_embeddings);
  EXPECT_FALSE(config.linear.product_bias || config.linear.gated_norm);
  for (const LayerConfig& layer : config.layers) {
    EXPECT_EQ(layer.kind, LayerKind::kMamba);
    EXPECT_FALSE(layer.mlp || layer.use_rope);
  }
}

TEST(HfFirstMambaTest, SizesAreTakenAsTheyAreGiven) {
  const ModelConfig config = GoodConfig(
      ConfigWith(Mamba(), R"({"state_size":20,"conv_kernel":3,"use_conv_bias":false,"use_bias":true,
                   "expand":3,"time_step_rank":7})"));
  EXPECT_EQ(config.linear.key_head_dim, 20);
  EXPECT_EQ(config.linear.conv_kernel, 3);
  EXPECT_EQ(config.linear.value_width(), 216);
  EXPECT_EQ(config.linear.step_rank, 7);
  EXPECT_TRUE(config.linear.product_bias && !config.linear.conv_bias);
  EXPECT_EQ(GoodConfig(ConfigWith(Mamba(), R"({"time_step_rank":"auto"})")).linear.step_rank, 5);
}

TEST(HfFirstMambaTest, FalconMambaHasNormsWithoutWeightsAndTellsItsWidth) {
  const ModelConfig config = GoodConfig(ConfigWith(
      Mamba(), R"({"architectures":["FalconMambaForCausalLM"],"expand":16,"intermediate_size":80,
                   "mixer_rms_eps":0.01})"));
  EXPECT_EQ(config.architecture, Architecture::kFalconMamba);
  EXPECT_EQ(config.linear.value_width(), 80);
  EXPECT_EQ(config.linear.scan_norms, ScanNorms::kPlain);
  EXPECT_EQ(config.linear.scan_norm_eps, 0.01f);
  EXPECT_EQ(config.intermediate_size, 0);
}

TEST(HfFirstMambaTest, OfJambaSomeLayersHaveAttentionAndSomeExperts) {
  const ModelConfig config = GoodConfig(ConfigWith(Jamba(), R"({"rms_norm_eps":0.001})"));
  for (int i = 0; i < 8; ++i) {
    const LayerConfig& layer = config.layers[static_cast<size_t>(i)];
    EXPECT_EQ(layer.kind, i % 4 == 2 ? LayerKind::kFull : LayerKind::kMamba);
    EXPECT_EQ(layer.experts, i % 2 == 1);
    EXPECT_TRUE(layer.mlp && !layer.use_rope);
  }
  EXPECT_EQ(config.linear.value_width(), 128);
  EXPECT_EQ(config.linear.step_rank, 4);
  EXPECT_EQ(config.linear.scan_norms, ScanNorms::kWeighted);
  EXPECT_EQ(config.linear.scan_norm_eps, 0.001f);
  EXPECT_EQ(config.experts.count, 6);
  EXPECT_EQ(config.experts.per_token, 2);
  EXPECT_EQ(config.experts.width, 96);
  EXPECT_EQ(config.experts.score, RouterScore::kSoftmax);
  EXPECT_FALSE(config.experts.renormalize);
}

TEST(HfFirstMambaTest, OneExpertOfJambaIsNone) {
  const ModelConfig config = GoodConfig(ConfigWith(Jamba(), R"({"num_experts":1})"));
  EXPECT_EQ(config.experts.count, 0);
  for (const LayerConfig& layer : config.layers) EXPECT_FALSE(layer.experts);
}

TEST(HfFirstMambaTest, WhatIsNotLegalIsNamed) {
  const auto error = [](const Json& json, const char* text) {
    return ConfigError(ConfigWith(json, text));
  };
  EXPECT_THAT(error(Mamba(), R"({"hidden_act":"gelu"})"), HasSubstr("must be silu"));
  EXPECT_THAT(error(Mamba(), R"({"state_size":2000})"), HasSubstr("\"state_size\" is 2000"));
  EXPECT_THAT(error(Mamba(), R"({"time_step_rank":0})"), HasSubstr("\"time_step_rank\" is 0"));
  EXPECT_THAT(error(Mamba(), R"({"expand":64,"hidden_size":4096})"),
              HasSubstr("\"expand\" is 64, which makes 262144 channels of 4096"));
  EXPECT_THAT(error(Jamba(), R"({"mamba_d_conv":9})"), HasSubstr("\"mamba_d_conv\" is 9"));
  EXPECT_THAT(error(Jamba(), R"({"attn_layer_offset":4})"),
              HasSubstr("\"attn_layer_offset\" is 4; it must be below \"attn_layer_period\", which "
                        "is 4"));
  EXPECT_THAT(error(Jamba(), R"({"expert_layer_period":0})"),
              HasSubstr("\"expert_layer_period\" is 0"));
  EXPECT_THAT(error(Jamba(), R"({"num_experts_per_tok":7})"),
              HasSubstr("a token takes 7 experts of 6"));
}

}  // namespace
}  // namespace sluice::files
