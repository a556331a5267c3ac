// Falcon-H1, whose layers have attention and Mamba-2 side by side, and Nemotron-H, whose layers a
// pattern tells.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/json.h"
#include "files/model_config.h"
#include "files/test_configs.h"

namespace sluice::files {
namespace {

using testing::ConfigError;
using testing::ConfigWith;
using testing::GoodConfig;
using ::testing::HasSubstr;

Json FalconH1() {
  return {{"architectures", {"FalconH1ForCausalLM"}},
          {"vocab_size", 100},
          {"hidden_size", 64},
          {"num_hidden_layers", 3},
          {"num_attention_heads", 4},
          {"num_key_value_heads", 2},
          {"mamba_d_ssm", 96},
          {"mamba_n_heads", 6},
          {"mamba_d_head", 16}};
}
Json NemotronH() {
  return {{"architectures", {"NemotronHForCausalLM"}},
          {"vocab_size", 100},
          {"hidden_size", 64},
          {"num_attention_heads", 4},
          {"num_key_value_heads", 2},
          {"head_dim", 16},
          {"mamba_num_heads", 8},
          {"n_routed_experts", 6},
          {"hybrid_override_pattern", "MEM*-M"}};
}

TEST(HfFalconH1Test, ALayerIsAMixerBesideAnother) {
  const ModelConfig config = GoodConfig(ConfigWith(FalconH1(), "{}"));
  ASSERT_EQ(config.num_layers, 6);
  EXPECT_EQ(config.stored_layers(), 3);
  for (int i = 0; i < 6; ++i) {
    const LayerConfig& layer = config.layers[static_cast<size_t>(i)];
    const bool mamba = i % 2 == 0;
    EXPECT_EQ(layer.kind, mamba ? LayerKind::kMamba : LayerKind::kFull);
    EXPECT_EQ(layer.mlp, !mamba);
    EXPECT_EQ(layer.use_rope, !mamba);
    EXPECT_EQ(config.BesideLast(i), !mamba);
    EXPECT_EQ(config.StoredMixer(i), i / 2);
    EXPECT_EQ(config.StoredMlp(i), i / 2);
  }
  EXPECT_EQ(config.linear.value_width(), 96);
  EXPECT_EQ(config.linear.value_head_dim, 16);
  EXPECT_FALSE(config.linear.gated_norm);
  EXPECT_TRUE(config.linear.scales.plain());
  EXPECT_EQ(config.residual_scale, 1.0f);
}

TEST(HfFalconH1Test, MultipliersMeetWhatTheyScale) {
  const ModelConfig config = GoodConfig(ConfigWith(FalconH1(), R"({"embedding_multiplier":5.0,
      "lm_head_multiplier":0.25,"key_multiplier":0.5,"attention_in_multiplier":2.0,
      "attention_out_multiplier":4.0,"ssm_in_multiplier":3.0,"ssm_out_multiplier":16.0,
      "ssm_multipliers":[1.0,2.0,3.0,4.0,5.0],"mlp_multipliers":[7.0,24.0]})"));
  EXPECT_EQ(config.embedding_scale, 5.0f);
  EXPECT_EQ(config.logit_scale, 0.25f);
  // Of heads of 16: queries and keys are both twice as large.
  EXPECT_EQ(config.attention_scale, 0.25f * 0.5f * 4.0f);
  EXPECT_EQ(config.residual_scale, 8.0f);
  const MambaScales& scales = config.linear.scales;
  EXPECT_EQ(scales.gate, 3.0f);
  EXPECT_EQ(scales.values, 6.0f);
  EXPECT_EQ(scales.keys, 9.0f);
  EXPECT_EQ(scales.queries, 12.0f);
  EXPECT_EQ(scales.dt, 15.0f);
  EXPECT_EQ(scales.out, 2.0f);
  EXPECT_EQ(config.mlp_gate_scale, 7.0f);
  EXPECT_EQ(config.mlp_inner_scale, 3.0f);
}

TEST(HfFalconH1Test, WhatIsNotSupportedIsNamed) {
  const auto error = [](const char* text) { return ConfigError(ConfigWith(FalconH1(), text)); };
  for (const char* key : {"attention_bias", "mlp_bias", "mamba_proj_bias", "projectors_bias"})
    EXPECT_THAT(error((std::string("{\"") + key + "\":true}").c_str()),
                HasSubstr(std::string("\"") + key + "\" is true, which is not supported"));
  EXPECT_THAT(error(R"({"mamba_rms_norm":true})"),
              HasSubstr("\"mamba_norm_before_gate\" is true, which is not supported"));
  EXPECT_TRUE(GoodConfig(ConfigWith(FalconH1(),
                                    R"({"mamba_rms_norm":true,"mamba_norm_before_gate":false})"))
                  .linear.gated_norm);
  EXPECT_THAT(error(R"({"ssm_multipliers":[1.0,2.0]})"),
              HasSubstr("\"ssm_multipliers\" is a list of 2 numbers; 5 are needed"));
  EXPECT_THAT(error(R"({"mlp_multipliers":[1.0,-2.0]})"), HasSubstr("\"mlp_multipliers\""));
  EXPECT_THAT(error(R"({"attention_in_multiplier":0.0})"),
              HasSubstr("\"attention_in_multiplier\" is 0"));
  EXPECT_THAT(error(R"({"mamba_d_ssm":90})"),
              HasSubstr("\"mamba_d_ssm\" is 90, which is not 6 heads of 16"));
}

TEST(HfFalconH1Test, TheWidthOfItsHeadsMayFollow) {
  EXPECT_EQ(GoodConfig(ConfigWith(FalconH1(), R"({"mamba_d_head":"auto"})")).linear.value_head_dim,
            16);
  const ModelConfig expanded = GoodConfig(
      ConfigWith(FalconH1(), R"({"mamba_d_ssm":null,"mamba_n_heads":4,"mamba_d_head":32})"));
  EXPECT_EQ(expanded.linear.value_width(), 128);
}

TEST(HfNemotronHTest, AMixerAndTheFeedForwardPartBehindItAreALayer) {
  const ModelConfig config = GoodConfig(ConfigWith(NemotronH(), "{}"));
  ASSERT_EQ(config.num_layers, 4);
  EXPECT_EQ(config.stored_layers(), 6);
  const LayerKind kinds[] = {LayerKind::kMamba, LayerKind::kMamba, LayerKind::kFull,
                             LayerKind::kMamba};
  const int mixers[] = {0, 2, 3, 5}, mlps[] = {1, 2, 4, 5};
  for (int i = 0; i < 4; ++i) {
    const LayerConfig& layer = config.layers[static_cast<size_t>(i)];
    EXPECT_EQ(layer.kind, kinds[i]);
    EXPECT_EQ(layer.mlp, i % 2 == 0);
    EXPECT_EQ(layer.experts, i == 0);
    EXPECT_FALSE(layer.use_rope);
    EXPECT_EQ(config.StoredMixer(i), mixers[i]);
    EXPECT_EQ(config.StoredMlp(i), mlps[i]);
    EXPECT_FALSE(config.BesideLast(i));
  }
  EXPECT_TRUE(config.plain_mlp);
  EXPECT_EQ(config.activation, ActivationKind::kReluSquared);
  EXPECT_EQ(config.experts.count, 6);
  EXPECT_EQ(config.experts.score, RouterScore::kSigmoid);
  const ModelConfig dense =
      GoodConfig(ConfigWith(NemotronH(), R"({"hybrid_override_pattern":"M-"})"));
  EXPECT_EQ(dense.experts.count, 0);
}

TEST(HfNemotronHTest, AListOfNamesComesBeforeTheLetters) {
  // As transformers 5 spells them, and as it did before.
  for (const char* list :
       {R"({"layers_block_type":["linear_attention","moe","full_attention","mlp"]})",
        R"({"layers_block_type":["mamba","moe","attention","mlp"]})"}) {
    const ModelConfig config = GoodConfig(ConfigWith(NemotronH(), list));
    EXPECT_EQ(config.num_layers, 2);
    EXPECT_TRUE(config.layers[0].experts && !config.layers[1].experts);
  }
}

TEST(HfNemotronHTest, WhatIsNotSupportedIsNamed) {
  const auto error = [](const char* text) { return ConfigError(ConfigWith(NemotronH(), text)); };
  EXPECT_THAT(error(R"({"hybrid_override_pattern":"-M"})"),
              HasSubstr("layer 0 is a feed-forward part behind no mixer of its own"));
  EXPECT_THAT(error(R"({"hybrid_override_pattern":"M-E"})"),
              HasSubstr("layer 2 is a feed-forward part behind no mixer of its own"));
  EXPECT_THAT(error(R"({"hybrid_override_pattern":"MX"})"),
              HasSubstr("layer 1 is of a type other than mamba, attention, mlp and moe"));
  EXPECT_THAT(error(R"({"hybrid_override_pattern":null})"), HasSubstr("name 0 layers"));
  EXPECT_THAT(error(R"({"layers_block_type":"M"})"), HasSubstr("name 0 layers"));
  EXPECT_THAT(error(R"({"mamba_hidden_act":"gelu"})"), HasSubstr("\"mamba_hidden_act\""));
  EXPECT_THAT(error(R"({"moe_latent_size":16})"), HasSubstr("\"moe_latent_size\" is given"));
}

}  // namespace
}  // namespace sluice::files
