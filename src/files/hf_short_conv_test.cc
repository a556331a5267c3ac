#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "base/json.h"
#include "files/model_config.h"
#include "files/test_configs.h"

namespace sluice::files {
namespace {

using ::testing::HasSubstr;

Result<ModelConfig> Lfm2Config(const std::string& text,
                               const char* architecture = "Lfm2ForCausalLM") {
  Json json = {
      {"architectures", {architecture}}, {"vocab_size", 100},      {"hidden_size", 64},
      {"intermediate_size", 96},         {"num_hidden_layers", 4}, {"num_attention_heads", 4},
      {"num_key_value_heads", 2}};
  return testing::ConfigWith(std::move(json), text);
}
ModelConfig GoodLfm2(const std::string& text) { return testing::GoodConfig(Lfm2Config(text)); }
std::string Lfm2Error(const std::string& text) { return testing::ConfigError(Lfm2Config(text)); }
std::string ConvKinds(const ModelConfig& config) {
  std::string text;
  for (const LayerConfig& layer : config.layers) {
    text += layer.kind == LayerKind::kShortConv ? 'c' : layer.kind == LayerKind::kFull ? 'f' : '?';
  }
  return text;
}

// As published files of LFM2 have it.
TEST(HfShortConvTest, ReadsThePublishedSpelling) {
  const ModelConfig config = GoodLfm2(R"({"block_auto_adjust_ff_dim":true,"block_dim":2048,
      "block_ff_dim":12288,"block_ffn_dim_multiplier":1.0,"block_multiple_of":256,
      "block_norm_eps":1e-05,"conv_L_cache":3,"conv_bias":false,"conv_dim":2048,
      "hidden_size":2048,"num_heads":32,"num_attention_heads":32,"norm_eps":1e-4,
      "full_attn_idxs":[1,3],"rope_theta":500000.0,"theta":500000.0})");
  EXPECT_EQ(config.architecture, Architecture::kLfm2);
  EXPECT_EQ(config.intermediate_size, 8192);
  EXPECT_EQ(config.short_conv.kernel, 3);
  EXPECT_FALSE(config.short_conv.bias || config.attention_bias || config.mlp_bias);
  EXPECT_EQ(ConvKinds(config), "cfcf");
  EXPECT_EQ(config.rope.theta, 500000.0f);
  EXPECT_EQ(config.norm_eps, 1e-4f);
  EXPECT_EQ(config.qk_norm, QkNormKind::kHead);
  EXPECT_TRUE(config.tied_embeddings);
  EXPECT_FALSE(GoodLfm2(R"({"tie_embedding":false})").tied_embeddings);
}

TEST(HfShortConvTest, LayersAreThoseThatAreNamed) {
  EXPECT_EQ(
      ConvKinds(GoodLfm2(R"({"layer_types":["conv","full_attention","full_attention","conv"]})")),
      "cffc");
  EXPECT_EQ(ConvKinds(GoodLfm2(R"({"layer_types":["conv","full_attention","full_attention","conv"],
                           "full_attn_idxs":[0]})")),
            "cffc");
  EXPECT_EQ(ConvKinds(GoodLfm2(R"({"full_attn_idxs":[]})")), "cccc");
  EXPECT_EQ(ConvKinds(GoodLfm2("{}")), "ffff");
  const ModelConfig other = GoodLfm2(R"({"conv_L_cache":5,"conv_bias":true})");
  EXPECT_EQ(other.short_conv.kernel, 5);
  EXPECT_TRUE(other.short_conv.bias);
}

TEST(HfShortConvTest, FeedForwardPartsHaveTheWidthOfTheRule) {
  // Two thirds of 96 are 64, which the default multiple makes 256.
  EXPECT_EQ(GoodLfm2("{}").intermediate_size, 256);
  EXPECT_EQ(GoodLfm2(R"({"block_auto_adjust_ff_dim":false})").intermediate_size, 96);
  EXPECT_EQ(GoodLfm2(R"({"block_multiple_of":16})").intermediate_size, 64);
  EXPECT_EQ(
      GoodLfm2(R"({"block_multiple_of":16,"block_ffn_dim_multiplier":1.1})").intermediate_size, 80);
  EXPECT_EQ(
      GoodLfm2(R"({"block_multiple_of":16,"block_ffn_dim_multiplier":null})").intermediate_size,
      64);
  EXPECT_EQ(GoodLfm2(R"({"block_multiple_of":1,"block_ff_dim":100})").intermediate_size, 66);
}

TEST(HfShortConvTest, ExpertsStandBehindDenseLayersOfTheirOwnWidth) {
  const auto config = Lfm2Config(R"({"num_dense_layers":1,"num_experts":8,"num_experts_per_tok":2,
      "moe_intermediate_size":48,"norm_topk_prob":false,"routed_scaling_factor":1.5,
      "layer_types":["conv","full_attention","conv","conv"]})",
                                 "Lfm2MoeForCausalLM");
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_EQ(ConvKinds(*config), "cfcc");
  EXPECT_EQ(config->intermediate_size, 96);
  EXPECT_FALSE(config->layers[0].experts);
  EXPECT_TRUE(config->layers[1].experts && config->layers[3].experts);
  EXPECT_EQ(config->experts.count, 8);
  EXPECT_EQ(config->experts.width, 48);
  EXPECT_EQ(config->experts.score, RouterScore::kSigmoid);
  EXPECT_EQ(config->experts.scale, 1.5f);
  EXPECT_TRUE(config->experts.bias);
  EXPECT_FALSE(config->experts.renormalize);
  const auto plain = Lfm2Config(R"({"use_expert_bias":false})", "Lfm2MoeForCausalLM");
  ASSERT_TRUE(plain.ok()) << plain.status().message();
  EXPECT_FALSE(plain->experts.bias);
  EXPECT_TRUE(plain->experts.renormalize);
  EXPECT_FALSE(plain->layers[1].experts);
  EXPECT_EQ(plain->experts.per_token, 4);
  const auto refused = Lfm2Config(R"({"num_dense_layers":-1})", "Lfm2MoeForCausalLM");
  EXPECT_THAT(refused.status().message(), HasSubstr("num_dense_layers"));
}

TEST(HfShortConvTest, RefusesWhatItCannotBe) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"conv_L_cache":1})", "\"conv_L_cache\" is 1; an integer from 2 to 8 is needed"},
      {R"({"conv_L_cache":9})", "conv_L_cache"},
      {R"({"conv_bias":1})", "conv_bias"},
      {R"({"block_multiple_of":0})", "block_multiple_of"},
      {R"({"block_ffn_dim_multiplier":-1})", "block_ffn_dim_multiplier"},
      {R"({"block_ffn_dim_multiplier":1e6})", "64000000 wide"},
      {R"({"block_ff_dim":0})", "block_ff_dim"},
      {R"({"block_ff_dim":1,"block_multiple_of":16})", "is 0 wide"},
      {R"({"full_attn_idxs":[4]})", "\"full_attn_idxs\""},
      {R"({"full_attn_idxs":[-1]})", "\"full_attn_idxs\""},
      {R"({"layer_types":["conv","linear_attention","conv","conv"]})",
       "gives layer 1 the type \"linear_attention\"; full_attention and conv are supported"},
      {R"({"layer_types":["conv"]})", "not a list of 4 names"},
  };
  for (const auto& [text, message] : cases)
    EXPECT_THAT(Lfm2Error(text), HasSubstr(message)) << text;
}

}  // namespace
}  // namespace sluice::files
