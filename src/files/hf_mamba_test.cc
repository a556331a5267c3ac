#include "files/hf_mamba.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "files/model_config.h"
#include "files/test_configs.h"

namespace sluice::files {
namespace {

using testing::ConfigError;
using testing::ConfigWith;
using testing::GoodConfig;
using ::testing::HasSubstr;

Json Mamba2() {
  return {{"architectures", {"Mamba2ForCausalLM"}},
          {"vocab_size", 100},
          {"hidden_size", 64},
          {"num_hidden_layers", 3}};
}
Json Granite() {
  return {{"architectures", {"GraniteMoeHybridForCausalLM"}},
          {"vocab_size", 100},
          {"hidden_size", 64},
          {"num_hidden_layers", 3},
          {"num_attention_heads", 4},
          {"mamba_n_heads", 8},
          {"mamba_d_state", 16}};
}
std::string MambaKinds(const ModelConfig& config) {
  std::string text;
  for (const LayerConfig& layer : config.layers) {
    text += layer.kind == LayerKind::kMamba ? 'm' : layer.kind == LayerKind::kFull ? 'f' : '?';
    if (layer.use_rope) text += 'r';
  }
  return text;
}

// As the published file of Codestral Mamba has it, but for its sizes.
TEST(HfMambaTest, ReadsThePublishedSpelling) {
  const auto config = ConfigFromJson(R"({"architectures":["Mamba2ForCausalLM"],"bos_token_id":0,
      "chunk_size":256,"conv_kernel":4,"eos_token_id":0,"expand":2,"head_dim":64,
      "hidden_act":"silu","hidden_size":4096,"intermediate_size":8192,"layer_norm_epsilon":1e-4,
      "model_type":"mamba2","n_groups":8,"norm_before_gate":true,"num_heads":128,
      "num_hidden_layers":64,"rms_norm":true,"state_size":128,"tie_word_embeddings":false,
      "time_step_limit":[0.0,Infinity],"time_step_max":0.1,"time_step_rank":256,
      "torch_dtype":"bfloat16","use_bias":false,"use_conv_bias":true,"vocab_size":32768})",
                                     "");
  const ModelConfig read = GoodConfig(config);
  EXPECT_EQ(read.architecture, Architecture::kMamba2);
  EXPECT_EQ(read.linear.key_heads, 8);
  EXPECT_EQ(read.linear.value_heads, 128);
  EXPECT_EQ(read.linear.key_head_dim, 128);
  EXPECT_EQ(read.linear.value_head_dim, 64);
  EXPECT_EQ(read.linear.conv_kernel, 4);
  EXPECT_TRUE(read.linear.mamba && read.linear.conv_bias && !read.linear.product_bias);
  EXPECT_EQ(MambaKinds(read), std::string(64, 'm'));
  for (const LayerConfig& layer : read.layers) EXPECT_FALSE(layer.mlp || layer.experts);
  EXPECT_EQ(read.intermediate_size, 0);
  EXPECT_EQ(read.norm_eps, 1e-4f);
  EXPECT_EQ(read.eos_ids, std::vector<int>(1, 0));
  EXPECT_EQ(read.dtype, DType::kBF16);
}

TEST(HfMambaTest, WhatIsSilentIsAsInTransformers) {
  const LinearAttentionConfig linear =
      GoodConfig(ConfigWith(Mamba2(), R"({"use_bias":true})")).linear;
  EXPECT_EQ(linear.key_heads, 8);
  EXPECT_EQ(linear.value_heads, 128);
  EXPECT_TRUE(linear.product_bias && linear.conv_bias);
  const ModelConfig granite = GoodConfig(ConfigWith(Granite(), "{}"));
  EXPECT_EQ(granite.linear.value_head_dim, 16);  // twice as wide as the hidden state, in 8 heads
  EXPECT_EQ(granite.linear.key_heads, 1);
  EXPECT_EQ(MambaKinds(granite), "mmm");
  EXPECT_EQ(granite.experts.count, 8);
}

TEST(HfMambaTest, LayersAreThoseThatAreNamed) {
  // As published files and as transformers 5 spell them.
  for (const char* types : {R"({"layer_types":["mamba","attention","mamba"]})",
                            R"({"layer_types":["linear_attention","full_attention",
                                "linear_attention"],"position_embedding_type":null})"}) {
    EXPECT_EQ(MambaKinds(GoodConfig(ConfigWith(Granite(), types))), "mfm");
  }
  EXPECT_EQ(
      MambaKinds(GoodConfig(ConfigWith(Granite(), R"({"layer_types":["mamba","attention","mamba"],
                                           "position_embedding_type":"rope"})"))),
      "mrfrmr");
  Json bamba = Granite();
  bamba["architectures"] = {"BambaForCausalLM"};
  bamba["num_key_value_heads"] = 2;
  const ModelConfig config = GoodConfig(ConfigWith(bamba, R"({"attn_layer_indices":[2]})"));
  EXPECT_EQ(MambaKinds(config), "mrmrfr");
  EXPECT_EQ(config.rope.rotary_dims, 8);
  EXPECT_THAT(ConfigError(ConfigWith(bamba, R"({"attn_layer_indices":[3]})")),
              HasSubstr("\"attn_layer_indices\""));
  EXPECT_THAT(ConfigError(ConfigWith(Granite(), R"({"layer_types":["mamba","attention"]})")),
              HasSubstr("\"layer_types\" is not a list of 3 names"));
  EXPECT_THAT(ConfigError(ConfigWith(Granite(), R"({"layer_types":["mamba",7,"mamba"]})")),
              HasSubstr("\"layer_types\" gives layer 1 a type other than mamba and attention"));
}

TEST(HfMambaTest, WithoutExpertsTheSharedOneIsTheFeedForwardPart) {
  const ModelConfig dense =
      GoodConfig(ConfigWith(Granite(), R"({"num_local_experts":0,"num_experts_per_tok":0,
                               "shared_intermediate_size":48})"));
  EXPECT_EQ(dense.intermediate_size, 48);
  EXPECT_EQ(dense.experts.count, 0);
  const ModelConfig sparse = GoodConfig(ConfigWith(
      Granite(),
      R"({"num_local_experts":4,"intermediate_size":24,"shared_intermediate_size":48})"));
  EXPECT_THAT(
      ConfigError(ConfigWith(Granite(), R"({"num_local_experts":4,"num_experts_per_tok":0})")),
      HasSubstr("\"num_experts_per_tok\" is 0"));
  EXPECT_EQ(sparse.experts.width, 24);
  EXPECT_EQ(sparse.experts.shared_width, 48);
}

TEST(HfMambaTest, WhatIsNotSupportedIsNamed) {
  EXPECT_THAT(ConfigError(ConfigWith(Mamba2(), R"({"hidden_act":"gelu"})")),
              HasSubstr("must be silu"));
  for (const char* limits :
       {R"([0.0,{"__float__":"Infinity"}])", "[0.0,null]", "[0,1e38]", "null"}) {
    GoodConfig(ConfigWith(Mamba2(), std::string(R"({"time_step_limit":)") + limits + "}"));
  }
  for (const char* limits : {"[0.001,null]", "[0.0,0.1]", "[0.0]", "0", R"(["0",null])"}) {
    EXPECT_THAT(
        ConfigError(ConfigWith(Mamba2(), std::string(R"({"time_step_limit":)") + limits + "}")),
        HasSubstr("\"time_step_limit\""));
  }
  EXPECT_THAT(ConfigError(ConfigWith(Mamba2(), R"({"n_groups":3})")), HasSubstr("3 key heads"));
  EXPECT_THAT(ConfigError(ConfigWith(Mamba2(), R"({"state_size":0})")),
              HasSubstr("\"state_size\" is 0"));
  EXPECT_THAT(ConfigError(ConfigWith(Granite(), R"({"mamba_n_heads":7})")),
              HasSubstr("\"mamba_n_heads\" is 7, which divides 128 columns into no heads"));
  EXPECT_THAT(ConfigError(ConfigWith(Granite(), R"({"mamba_d_head":"wide"})")),
              HasSubstr("\"mamba_d_head\""));
}

TEST(HfMambaTest, NumbersThatJsonHasNoWordsForBecomeNull) {
  EXPECT_EQ(WithoutInfinities(R"({"a":[Infinity,-Infinity,NaN],"NaN \" Infinity":"Infinity\\"})"),
            R"({"a":[null,null,null],"NaN \" Infinity":"Infinity\\"})");
  EXPECT_EQ(WithoutInfinities("\"\\"), "\"\\");
}

}  // namespace
}  // namespace sluice::files
