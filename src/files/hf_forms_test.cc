// Architectures whose config.json has keys of its own for sizes, positions and the places of
// blocks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/json.h"
#include "files/alibi.h"
#include "files/model_config.h"

namespace sluice::files {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Result<ModelConfig> ReadForm(const std::string& class_name, const std::string& text) {
  Json json = Json::parse(text);
  json["architectures"] = {class_name};
  json["vocab_size"] = json.value("vocab_size", 100);
  return ConfigFromJson(DumpJson(json), "");
}
ModelConfig GoodForm(const std::string& class_name, const std::string& text = "{}") {
  auto config = ReadForm(class_name, text);
  EXPECT_TRUE(config.ok()) << config.status().message();
  return config.ok() ? *config : ModelConfig();
}
std::string FormError(const std::string& class_name, const std::string& text) {
  auto config = ReadForm(class_name, text);
  return config.ok() ? "no error" : std::string(config.status().message());
}
// By layer: 'c' sees chunks or a window, 'f' everything; upper case where it rotates.
std::string LayersOf(const ModelConfig& config) {
  std::string layers;
  for (const LayerConfig& layer : config.layers) {
    const char kind = layer.kind == LayerKind::kWindow ? 'c' : 'f';
    layers += layer.use_rope ? static_cast<char>(std::toupper(kind)) : kind;
  }
  return layers;
}
std::string ExpertsOf(const ModelConfig& config) {
  std::string with;
  for (const LayerConfig& layer : config.layers) with += layer.experts ? 'e' : '-';
  return with;
}

TEST(AlibiTest, SlopesAreThoseOfThePaper) {
  EXPECT_THAT(AlibiSlopes(4, 8.0f), ElementsAre(0.25f, 0.0625f, 0.015625f, 0.00390625f));
  const float root = std::sqrt(0.5f);
  const std::vector<float> twelve = AlibiSlopes(12, 8.0f);
  ASSERT_EQ(twelve.size(), 12u);
  EXPECT_EQ(twelve[0], 0.5f);
  EXPECT_EQ(twelve[7], 1.0f / 256);
  EXPECT_FLOAT_EQ(twelve[8], root);
  EXPECT_FLOAT_EQ(twelve[11], root / 8);
  EXPECT_THAT(AlibiSlopes(1, 8.0f), ElementsAre(1.0f / 256));
}

TEST(HfFormsTest, Llama4) {
  const std::string sizes =
      R"("num_hidden_layers":4,"hidden_size":64,"num_attention_heads":4,"num_key_value_heads":2,
         "head_dim":16,"intermediate_size":32,"intermediate_size_mlp":48,"use_qk_norm":true)";
  const ModelConfig config = GoodForm(
      "Llama4ForCausalLM", "{" + sizes + R"(,"interleave_moe_layer_step":2,"num_local_experts":8,
                            "attention_chunk_size":128,"floor_scale":64,"attn_scale":0.2})");
  EXPECT_EQ(LayersOf(config), "CCCf");
  EXPECT_EQ(ExpertsOf(config), "-e-e");
  EXPECT_TRUE(config.chunked_window && config.experts.weighs_inputs && config.rope.interleaved);
  EXPECT_FALSE(config.experts.renormalize || config.experts.bias);
  EXPECT_EQ(config.sliding_window, 128);
  EXPECT_EQ(config.growth_tokens, 64);
  EXPECT_EQ(config.growth_scale, 0.2f);
  EXPECT_EQ(config.intermediate_size, 48);
  EXPECT_EQ(config.experts.width, 32);
  EXPECT_EQ(config.experts.shared_width, 32);
  EXPECT_EQ(config.experts.score, RouterScore::kSigmoid);
  EXPECT_EQ(config.qk_norm, QkNormKind::kHeadPlain);
  const ModelConfig other = GoodForm(
      "Llama4ForConditionalGeneration",
      R"({"text_config":{"vocab_size":100,)" + sizes +
          R"(,"moe_layers":[0,3],"no_rope_layers":[0,1,1,0],"attn_temperature_tuning":false,
                   "attention_chunk_size":null}})");
  EXPECT_EQ(LayersOf(other), "fFFf");
  EXPECT_EQ(ExpertsOf(other), "e--e");
  EXPECT_EQ(other.growth_tokens, 0);
  EXPECT_THAT(FormError("Llama4ForCausalLM", "{" + sizes + R"(,"no_rope_layers":[1,0]})"),
              HasSubstr("\"no_rope_layers\" has 2 items for 4 layers"));
  EXPECT_THAT(FormError("Llama4ForCausalLM", "{" + sizes + R"(,"layer_types":["a","b","c","d"]})"),
              HasSubstr("another type than chunked_attention and full_attention"));
  EXPECT_THAT(FormError("Llama4ForCausalLM", "{" + sizes + R"(,"floor_scale":0})"),
              HasSubstr("floor_scale"));
}

TEST(HfFormsTest, Hunyuan) {
  const ModelConfig dense = GoodForm(
      "HunYuanDenseV1ForCausalLM",
      R"({"head_dim":128,"rope_theta":10000.0,"rope_scaling":{"type":"dynamic","alpha":1000.0}})");
  EXPECT_TRUE(dense.qk_norm_behind_rope);
  EXPECT_EQ(dense.rope.scaling, RopeScaling::kNone);
  EXPECT_NEAR(dense.rope.theta / 11158839.9251, 1.0, 1e-6);
  const ModelConfig experts = GoodForm(
      "HunYuanMoEV1ForCausalLM",
      R"({"num_hidden_layers":2,"num_experts":8,"moe_topk":[3,3],"intermediate_size":48})");
  EXPECT_EQ(ExpertsOf(experts), "ee");
  EXPECT_EQ(experts.experts.per_token, 3);
  EXPECT_EQ(experts.experts.shared_width, 48);
  EXPECT_TRUE(experts.experts.renormalize);
  EXPECT_THAT(FormError("HunYuanMoEV1ForCausalLM", R"({"num_experts":8,"moe_topk":[3,2]})"),
              HasSubstr("\"moe_topk\" differs between layers"));
}

TEST(HfFormsTest, ErnieWithExperts) {
  const ModelConfig config =
      GoodForm("Ernie4_5_MoeForCausalLM",
               R"({"num_hidden_layers":6,"moe_num_experts":8,"moe_k":2,"moe_intermediate_size":32,
          "moe_num_shared_experts":3,"moe_layer_start_index":1,"moe_layer_end_index":4,
          "moe_layer_interval":2})");
  EXPECT_EQ(ExpertsOf(config), "-e-e--");
  EXPECT_EQ(config.experts.score, RouterScore::kSoftmaxBiased);
  EXPECT_EQ(config.experts.shared_width, 96);
  EXPECT_TRUE(config.experts.bias && config.experts.renormalize);
  EXPECT_EQ(ExpertsOf(GoodForm("Ernie4_5_MoeForCausalLM", R"({"num_hidden_layers":3})")), "-ee");
  EXPECT_EQ(
      GoodForm("Ernie4_5_MoeForCausalLM", R"({"moe_num_shared_experts":0})").experts.shared_width,
      0);
  EXPECT_THAT(FormError("Ernie4_5_MoeForCausalLM", R"({"use_bias":true})"),
              HasSubstr("biases of experts that every token takes"));
}

TEST(HfFormsTest, SizesUnderTheirOldNames) {
  const ModelConfig gpt2 = GoodForm(
      "GPT2LMHeadModel", R"({"n_embd":64,"n_layer":3,"n_head":4,"n_positions":50,"n_inner":null,
                             "layer_norm_epsilon":0.01,"activation_function":"gelu"})");
  EXPECT_EQ(gpt2.hidden_size, 64);
  EXPECT_EQ(gpt2.intermediate_size, 256);
  EXPECT_EQ(gpt2.head_dim, 16);
  EXPECT_EQ(gpt2.position_rows, 50);
  EXPECT_EQ(gpt2.context_length, 50);
  EXPECT_EQ(gpt2.norm_eps, 0.01f);
  EXPECT_EQ(gpt2.activation, ActivationKind::kGeluErf);
  EXPECT_EQ(LayersOf(gpt2), "fff");
  EXPECT_TRUE(gpt2.tied_embeddings && gpt2.plain_mlp && gpt2.attention_bias && gpt2.mlp_bias);
  const ModelConfig bloom = GoodForm("BloomForCausalLM", R"({"n_embed":48,"n_layer":2,
      "num_attention_heads":3,"n_inner":null,"seq_length":77})");
  EXPECT_EQ(bloom.hidden_size, 48);
  EXPECT_EQ(bloom.context_length, 77);
  EXPECT_EQ(bloom.alibi_slopes.size(), 3u);
  EXPECT_TRUE(bloom.embedding_norm);
  const std::pair<const char*, const char*> refused[] = {
      {R"({"scale_attn_by_inverse_layer_idx":true})", "scale_attn_by_inverse_layer_idx"},
      {R"({"scale_attn_weights":false})", "\"scale_attn_weights\" is false"},
      {R"({"add_cross_attention":true})", "add_cross_attention"},
      {R"({"n_head":5})", "not a multiple of 5 heads"},
      {R"({"n_positions":0})", "n_positions"}};
  for (const auto& [text, message] : refused) {
    EXPECT_THAT(FormError("GPT2LMHeadModel", text), HasSubstr(message)) << text;
  }
  EXPECT_THAT(FormError("BloomForCausalLM", R"({"apply_residual_connection_post_layernorm":true})"),
              HasSubstr("apply_residual_connection_post_layernorm"));
}

TEST(HfFormsTest, GptNeoXInBothSpellings) {
  for (const char* rope : {R"("rotary_pct":0.5,"rotary_emb_base":500)",
                           R"("rope_parameters":{"rope_type":"default","rope_theta":500,
                               "partial_rotary_factor":0.5})"}) {
    const ModelConfig config =
        GoodForm("GPTNeoXForCausalLM",
                 std::string("{\"hidden_size\":64,\"num_attention_heads\":4,") + rope + "}");
    EXPECT_EQ(config.rope.theta, 500.0f) << rope;
    EXPECT_EQ(config.rope.rotary_dims, 8) << rope;
    EXPECT_TRUE(config.parallel_residual && config.parallel_norms);
  }
  const ModelConfig serial = GoodForm("GPTNeoXForCausalLM", R"({"use_parallel_residual":false})");
  EXPECT_FALSE(serial.parallel_residual || serial.parallel_norms);
  EXPECT_EQ(serial.rope.rotary_dims, 24);
}

TEST(HfFormsTest, Falcon) {
  const ModelConfig seven = GoodForm("FalconForCausalLM");
  EXPECT_EQ(seven.num_kv_heads, 1);
  EXPECT_TRUE(seven.parallel_residual && !seven.parallel_norms && seven.alibi_slopes.empty());
  const ModelConfig forty = GoodForm("FalconForCausalLM",
                                     R"({"hidden_size":64,"num_attention_heads":4,"num_kv_heads":2,
                                     "new_decoder_architecture":true})");
  EXPECT_EQ(forty.num_kv_heads, 2);
  EXPECT_TRUE(forty.parallel_norms);
  const ModelConfig eleven =
      GoodForm("FalconForCausalLM", R"({"hidden_size":64,"num_attention_heads":4,"num_kv_heads":2,
                                    "new_decoder_architecture":true,"num_ln_in_parallel_attn":1})");
  EXPECT_TRUE(eleven.parallel_residual && !eleven.parallel_norms);
  const ModelConfig refined =
      GoodForm("RWForCausalLM", R"({"hidden_size":64,"n_head":4,"n_layer":2,"multi_query":false,
                                "parallel_attn":false,"alibi":true,"bias":true})");
  EXPECT_EQ(refined.num_kv_heads, 4);
  EXPECT_EQ(LayersOf(refined), "ff");
  EXPECT_FALSE(refined.parallel_residual);
  ASSERT_EQ(refined.alibi_slopes.size(), 4u);
  EXPECT_EQ(refined.alibi_slopes[0], 0.25f * refined.attention_scale);
  EXPECT_THAT(FormError("FalconForCausalLM", R"({"num_ln_in_parallel_attn":2})"),
              HasSubstr("\"num_ln_in_parallel_attn\" is 2"));
  EXPECT_THAT(
      FormError("FalconForCausalLM", R"({"new_decoder_architecture":true,"parallel_attn":false})"),
      HasSubstr("\"parallel_attn\" is false"));
}

TEST(HfFormsTest, Mpt) {
  const ModelConfig config =
      GoodForm("MPTForCausalLM", R"({"d_model":64,"n_layers":2,"n_heads":4,"max_seq_len":99,
                                 "attn_config":{"alibi_bias_max":16,"softmax_scale":0.5}})");
  EXPECT_EQ(config.hidden_size, 64);
  EXPECT_EQ(config.context_length, 99);
  EXPECT_EQ(config.attention_scale, 0.5f);
  EXPECT_EQ(config.alibi_slopes[0], 0.0625f);
  const std::pair<const char*, const char*> refused[] = {
      {R"({"attn_config":{"clip_qkv":6}})", "clip_qkv"},
      {R"({"attn_config":{"alibi":false}})", "\"alibi\" false"},
      {R"({"attn_config":{"qk_ln":true}})", "\"qk_ln\" true"},
      {R"({"attn_config":{"attn_type":"multiquery_attention"}})", "multiquery_attention"}};
  for (const auto& [text, message] : refused) {
    EXPECT_THAT(FormError("MptForCausalLM", text), HasSubstr(message)) << text;
  }
}

TEST(HfFormsTest, BaichuanKnowsPositionsByItsSize) {
  EXPECT_TRUE(
      GoodForm("BaiChuanForCausalLM", R"({"max_position_embeddings":4096})").alibi_slopes.empty());
  const ModelConfig thirteen =
      GoodForm("BaichuanForCausalLM", R"({"model_max_length":4096,"hidden_size":5120,
                                      "num_attention_heads":40,"num_hidden_layers":40})");
  EXPECT_EQ(thirteen.alibi_slopes.size(), 40u);
  EXPECT_EQ(thirteen.context_length, 4096);
  EXPECT_THAT(FormError("BaichuanForCausalLM", R"({"vocab_size":125696})"),
              HasSubstr("Baichuan 2, whose output matrix has to be normalized"));
}

TEST(HfFormsTest, InternLm) {
  const ModelConfig two = GoodForm("InternLM2ForCausalLM", R"({"bias":false})");
  EXPECT_FALSE(two.attention_bias || two.attention_output_bias || two.mlp_bias);
  EXPECT_TRUE(GoodForm("InternLM2ForCausalLM").attention_bias);
  const ModelConfig three = GoodForm("InternLM3ForCausalLM", R"({"qkv_bias":true,"bias":false})");
  EXPECT_TRUE(three.attention_bias && !three.attention_output_bias && !three.mlp_bias);
}

}  // namespace
}  // namespace sluice::files
