#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "files/test_hf_configs.h"

namespace sluice::files {
namespace {

using testing::Config;
using ::testing::ElementsAre;
using testing::ErrorOf;
using testing::Good;
using ::testing::HasSubstr;
using testing::LayersWithExperts;
using testing::Windows;

std::string ExpertLayersOf(const ModelConfig& config) {
  std::string with;
  for (const LayerConfig& layer : config.layers) with += layer.experts ? 'e' : '-';
  return with;
}

TEST(HfExpertsTest, ExpertsOfQwen3) {
  const ModelConfig silent = Good("Qwen3MoeForCausalLM");
  EXPECT_EQ(silent.experts.count, 128);
  EXPECT_EQ(silent.experts.per_token, 8);
  EXPECT_EQ(silent.experts.width, 768);
  EXPECT_FALSE(silent.experts.renormalize);
  EXPECT_EQ(silent.qk_norm, QkNormKind::kHead);
  EXPECT_THAT(LayersWithExperts(silent), ElementsAre(true, true, true, true));
  const ModelConfig config = Good("Qwen3MoeForCausalLM",
                                  R"({"num_experts":6,"num_experts_per_tok":2,
          "moe_intermediate_size":32,"norm_topk_prob":true,"mlp_only_layers":[3,900],
          "decoder_sparse_step":2,"sliding_window":8})");
  EXPECT_EQ(config.experts.count, 6);
  EXPECT_EQ(config.experts.per_token, 2);
  EXPECT_EQ(config.experts.width, 32);
  EXPECT_EQ(config.intermediate_size, 96);
  EXPECT_TRUE(config.experts.renormalize);
  EXPECT_THAT(LayersWithExperts(config), ElementsAre(false, true, false, false));
  EXPECT_EQ(config.sliding_window, 0);
  EXPECT_THAT(
      Windows(Good("Qwen3MoeForCausalLM", R"({"use_sliding_window":true,"sliding_window":8})")),
      ElementsAre(true, true, true, true));
  // As transformers 5 calls their number; and none at all.
  EXPECT_EQ(Good("Qwen3MoeForCausalLM", R"({"num_local_experts":9})").experts.count, 9);
  for (const char* none : {R"({"num_experts":0})", R"({"mlp_only_layers":[0,1,2,3]})"}) {
    EXPECT_EQ(Good("Qwen3MoeForCausalLM", none).experts.count, 0) << none;
    EXPECT_THAT(LayersWithExperts(Good("Qwen3MoeForCausalLM", none)),
                ElementsAre(false, false, false, false));
  }
}

TEST(HfExpertsTest, ExpertsOfMixtral) {
  const ModelConfig config = Good("MixtralForCausalLM", R"({"num_experts_per_tok":3})");
  EXPECT_EQ(config.experts.count, 8);
  EXPECT_EQ(config.experts.per_token, 3);
  EXPECT_EQ(config.experts.width, 96);
  EXPECT_TRUE(config.experts.renormalize);
  EXPECT_EQ(config.rope.theta, 1e6f);
  EXPECT_THAT(LayersWithExperts(config), ElementsAre(true, true, true, true));
}

TEST(HfExpertsTest, GptOss) {
  const ModelConfig config = Good("GptOssForCausalLM", R"({"sliding_window":8})");
  EXPECT_TRUE(config.attention_sinks);
  EXPECT_TRUE(config.attention_bias && config.attention_output_bias);
  EXPECT_TRUE(config.experts.product_biases && config.experts.renormalize);
  EXPECT_EQ(config.activation, ActivationKind::kClampedSwiglu);
  EXPECT_THAT(Windows(config), ElementsAre(true, false, true, false));
  EXPECT_THAT(ErrorOf(Config("GptOssForCausalLM", R"({"swiglu_limit":5.0})")),
              HasSubstr("\"swiglu_limit\" is 5 and \"swiglu_alpha\" 1.702; only 7"));
}

TEST(HfExpertsTest, RefusesWhatExpertsCannotBe) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"num_experts":-1})", "num_experts\" is -1; an integer from 0 to 1024"},
      {R"({"num_local_experts":1025})", "num_local_experts\" is 1025; an integer from 0 to 1024"},
      {R"({"num_experts_per_tok":0})", "num_experts_per_tok\" is 0; an integer from 1 to 64"},
      {R"({"num_experts_per_tok":65})", "num_experts_per_tok"},
      {R"({"num_experts":4,"num_experts_per_tok":5})", "takes 5 experts of 4"},
      {R"({"moe_intermediate_size":0})", "moe_intermediate_size"},
      {R"({"norm_topk_prob":1})", "norm_topk_prob"},
      {R"({"decoder_sparse_step":0})", "decoder_sparse_step"},
      {R"({"mlp_only_layers":[-1]})", "mlp_only_layers"},
  };
  for (const auto& [text, message] : cases) {
    EXPECT_THAT(ErrorOf(Config("Qwen3MoeForCausalLM", text)), HasSubstr(message));
  }
}

TEST(HfExpertsTest, ExpertsThatEveryTokenTakes) {
  const ModelConfig next = Good("Qwen3NextForCausalLM");
  EXPECT_EQ(next.experts.count, 512);
  EXPECT_EQ(next.experts.shared_width, 512);
  EXPECT_TRUE(next.experts.shared_gate && next.experts.renormalize);
  const ModelConfig two = Good("Qwen2MoeForCausalLM",
                               R"({"shared_expert_intermediate_size":80,"mlp_only_layers":[1]})");
  EXPECT_EQ(ExpertLayersOf(two), "e-ee");
  EXPECT_EQ(two.experts.shared_width, 80);
  EXPECT_TRUE(two.experts.shared_gate && two.attention_bias && !two.experts.renormalize);
  EXPECT_EQ(Good("GraniteMoeForCausalLM").experts.shared_width, 0);
  const ModelConfig granite =
      Good("GraniteMoeSharedForCausalLM", R"({"shared_intermediate_size":48})");
  EXPECT_EQ(granite.experts.shared_width, 48);
  EXPECT_FALSE(granite.experts.shared_gate);
}

TEST(HfExpertsTest, RoutersBySigmoid) {
  const ModelConfig glm =
      Good("Glm4MoeForCausalLM",
           R"({"n_routed_experts":8,"num_experts_per_tok":3,"moe_intermediate_size":32,"n_group":4,
          "topk_group":2,"routed_scaling_factor":2.5,"first_k_dense_replace":2,
          "n_shared_experts":2,"use_qk_norm":true})");
  EXPECT_EQ(ExpertLayersOf(glm), "--ee");
  EXPECT_EQ(glm.experts.score, RouterScore::kSigmoid);
  EXPECT_TRUE(glm.experts.bias && glm.experts.renormalize);
  EXPECT_EQ(glm.experts.groups, 4);
  EXPECT_EQ(glm.experts.groups_kept, 2);
  EXPECT_EQ(glm.experts.scale, 2.5f);
  EXPECT_EQ(glm.experts.shared_width, 64);
  EXPECT_EQ(glm.qk_norm, QkNormKind::kHead);
  EXPECT_EQ(Good("Glm4MoeForCausalLM").qk_norm, QkNormKind::kNone);
  const ModelConfig minimax = Good("MiniMaxM2ForCausalLM", R"({"head_dim":32,"rotary_dim":16})");
  EXPECT_EQ(minimax.rope.rotary_dims, 16);
  EXPECT_EQ(minimax.qk_norm, QkNormKind::kWidth);
  EXPECT_EQ(minimax.experts.width, 96);
  const std::pair<const char*, const char*> refused[] = {
      {R"({"n_group":3})", "groups of 128"},
      {R"({"n_group":2,"topk_group":3})", "3 of 2 groups"},
      {R"({"n_group":128})", "takes 8 experts of 1"},
      {R"({"topk_group":0})", "topk_group"},
      {R"({"n_shared_experts":0})", "n_shared_experts"},
      {R"({"routed_scaling_factor":-1})", "routed_scaling_factor"},
      {R"({"first_k_dense_replace":-1})", "first_k_dense_replace"},
  };
  for (const auto& [text, message] : refused) {
    EXPECT_THAT(ErrorOf(Config("Glm4MoeForCausalLM", text)), HasSubstr(message)) << text;
  }
  EXPECT_THAT(ErrorOf(Config("OlmoeForCausalLM", R"({"clip_qkv":8})")), HasSubstr("clip_qkv"));
}

}  // namespace
}  // namespace sluice::files
