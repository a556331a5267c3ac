#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "files/test_configs.h"

namespace sluice::files {
namespace {

using ::testing::HasSubstr;

// As published files of the dense model have it, but for the sizes.
Json PublishedGemma4() {
  return Json::parse(R"({"architectures":["Gemma4ForConditionalGeneration"],"model_type":"gemma4",
      "text_config":{"model_type":"gemma4_text","attention_k_eq_v":true,"global_head_dim":512,
      "head_dim":256,"hidden_activation":"gelu_pytorch_tanh","hidden_size":64,
      "hidden_size_per_layer_input":0,"intermediate_size":96,"num_attention_heads":8,
      "num_global_key_value_heads":1,"num_hidden_layers":3,"num_key_value_heads":4,
      "num_kv_shared_layers":0,"enable_moe_block":false,"final_logit_softcapping":30.0,
      "layer_types":["sliding_attention","full_attention","full_attention"],
      "rope_parameters":{
        "full_attention":{"partial_rotary_factor":0.25,"rope_theta":1000000.0,
                          "rope_type":"proportional"},
        "sliding_attention":{"rope_theta":10000.0,"rope_type":"default"}},
      "sliding_window":1024,"use_bidirectional_attention":"vision","vocab_size":100}})");
}

Result<ModelConfig> Gemma4Config(const std::string& text) {
  Json json = PublishedGemma4();
  json["text_config"].update(Json::parse(text));
  return ConfigFromJson(DumpJson(json), "");
}
ModelConfig GoodGemma4(const std::string& text) { return testing::GoodConfig(Gemma4Config(text)); }
std::string Gemma4Error(const std::string& text) {
  return testing::ConfigError(Gemma4Config(text));
}

TEST(HfGemma4Test, LayersThatSeeEverythingHaveHeadsOfTheirOwn) {
  const ModelConfig config = GoodGemma4("{}");
  EXPECT_EQ(config.architecture, Architecture::kGemma4);
  ASSERT_EQ(config.layers.size(), 3u);
  const LayerConfig &window = config.layers[0], &full = config.layers[1];
  EXPECT_EQ(window.kind, LayerKind::kWindow);
  EXPECT_EQ(config.head_dim_of(window), 256);
  EXPECT_EQ(config.kv_heads_of(window), 4);
  EXPECT_FALSE(window.v_is_k);
  EXPECT_EQ(full.kind, LayerKind::kFull);
  EXPECT_EQ(config.head_dim_of(full), 512);
  EXPECT_EQ(config.kv_heads_of(full), 1);
  EXPECT_TRUE(full.v_is_k);
  EXPECT_EQ(config.sliding_window, 1024);
  EXPECT_EQ(config.attention_scale, 1.0f);
  EXPECT_EQ(config.embedding_scale, 8.0f);
  EXPECT_EQ(config.logit_soft_cap, 30.0f);
  EXPECT_FALSE(config.attention_soft_cap);
}

TEST(HfGemma4Test, EachKindOfLayersRotatesWholeHeadsByItsOwnAngles) {
  const ModelConfig config = GoodGemma4("{}");
  EXPECT_EQ(config.rope.scaling, RopeScaling::kProportional);
  EXPECT_EQ(config.rope.portion, 0.25f);
  EXPECT_EQ(config.rope.theta, 1e6f);
  EXPECT_EQ(config.rope.rotary_dims, 512);
  EXPECT_TRUE(config.layers[0].local_rope && !config.layers[1].local_rope);
  EXPECT_EQ(config.local_rope.scaling, RopeScaling::kNone);
  EXPECT_EQ(config.local_rope.theta, 1e4f);
  EXPECT_EQ(config.local_rope.rotary_dims, 256);
}

TEST(HfGemma4Test, AFileWithoutRopeHasThePublishedOne) {
  const ModelConfig config = GoodGemma4(R"({"rope_parameters":null})");
  EXPECT_EQ(config.rope.scaling, RopeScaling::kProportional);
  EXPECT_EQ(config.rope.portion, 0.25f);
  EXPECT_EQ(config.rope.theta, 1e6f);
  EXPECT_EQ(config.local_rope.theta, 1e4f);
}

TEST(HfGemma4Test, KvHeadsAreTheModelsWhereVHasAMatrix) {
  const ModelConfig config = GoodGemma4(R"({"attention_k_eq_v":false})");
  EXPECT_EQ(config.kv_heads_of(config.layers[1]), 4);
  EXPECT_EQ(config.head_dim_of(config.layers[1]), 512);
  EXPECT_FALSE(config.layers[1].v_is_k);
}

TEST(HfGemma4Test, ReadsWhatTransformersWritesOfEachLayer) {
  const ModelConfig config =
      GoodGemma4(R"({"global_head_dim":null,"num_global_key_value_heads":null,
      "per_layer_config":{"1":{"head_dim":64,"num_key_value_heads":2},
                          "2":{"head_dim":64,"num_key_value_heads":2}}})");
  for (const int layer : {1, 2}) {
    EXPECT_EQ(config.head_dim_of(config.layers[layer]), 64);
    EXPECT_EQ(config.kv_heads_of(config.layers[layer]), 2);
  }
  EXPECT_EQ(config.head_dim_of(config.layers[0]), 256);
  EXPECT_EQ(config.rope.rotary_dims, 64);
}

TEST(HfGemma4Test, ExpertsStandBesideTheDensePartOfEveryLayer) {
  const ModelConfig config =
      GoodGemma4(R"({"enable_moe_block":true,"num_experts":8,"top_k_experts":2,
      "moe_intermediate_size":48})");
  EXPECT_EQ(config.experts.count, 8);
  EXPECT_EQ(config.experts.per_token, 2);
  EXPECT_EQ(config.experts.width, 48);
  EXPECT_TRUE(config.experts.renormalize && config.experts.scales && config.experts.beside_dense);
  EXPECT_EQ(config.intermediate_size, 96);
  for (const LayerConfig& layer : config.layers) EXPECT_TRUE(layer.experts && layer.mlp);
  EXPECT_EQ(GoodGemma4(R"({"num_experts":8,"top_k_experts":2})").experts.count, 0);
}

TEST(HfGemma4Test, TheLastLayerSeesEverythingWhateverTheFileSays) {
  const ModelConfig config =
      GoodGemma4(R"({"layer_types":["sliding_attention","full_attention","sliding_attention"]})");
  EXPECT_EQ(config.layers[2].kind, LayerKind::kFull);
  EXPECT_EQ(config.head_dim_of(config.layers[2]), 512);
  EXPECT_FALSE(config.layers[2].local_rope);
}

TEST(HfGemma4Test, LayersMayBeGivenMoreOfAToken) {
  EXPECT_EQ(GoodGemma4("{}").layer_inputs.width, 0);
  const ModelConfig config =
      GoodGemma4(R"({"hidden_size_per_layer_input":24,"vocab_size_per_layer_input":128})");
  EXPECT_EQ(config.layer_inputs.width, 24);
  EXPECT_EQ(config.layer_inputs.rows, 128);
  // What transformers takes for keys that are not there.
  Json json = PublishedGemma4();
  json["text_config"].erase("hidden_size_per_layer_input");
  const ModelConfig silent = testing::GoodConfig(ConfigFromJson(DumpJson(json), ""));
  EXPECT_EQ(silent.layer_inputs.width, 256);
  EXPECT_EQ(silent.layer_inputs.rows, 262144);
}

TEST(HfGemma4Test, TheLastLayersReadTheKvOfTheLastOneBeforeThemOfTheirKind) {
  const std::string five = R"({"num_hidden_layers":5,"num_kv_shared_layers":2,"layer_types":[
      "sliding_attention","full_attention","sliding_attention","sliding_attention",
      "full_attention"])";
  const ModelConfig config = GoodGemma4(five + "}");
  for (int i = 0; i < 3; ++i) EXPECT_EQ(config.layers[static_cast<size_t>(i)].kv_of, -1);
  EXPECT_EQ(config.layers[3].kv_of, 2);
  EXPECT_EQ(config.layers[4].kv_of, 1);
  EXPECT_EQ(config.mlp_width_of(config.layers[4]), 96);
  const ModelConfig wide = GoodGemma4(five + R"(,"use_double_wide_mlp":true})");
  EXPECT_EQ(wide.mlp_width_of(wide.layers[2]), 96);
  EXPECT_EQ(wide.mlp_width_of(wide.layers[3]), 192);
}

TEST(HfGemma4Test, RefusesWhatIsNotSupported) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"enable_moe_block":true})",
       "\"top_k_experts\" and \"moe_intermediate_size\" are needed"},
      {R"({"enable_moe_block":true,"num_experts":4,"top_k_experts":5,"moe_intermediate_size":8})",
       "5 experts of 4"},
      {R"({"enable_moe_block":true,"num_experts":0})", "\"num_experts\" is 0"},
      {R"({"hidden_size_per_layer_input":-1})", "\"hidden_size_per_layer_input\" is -1"},
      {R"({"hidden_size_per_layer_input":8,"vocab_size_per_layer_input":99})",
       "has 99 rows; it must have at least one for each of the 100 tokens"},
      {R"({"num_kv_shared_layers":3})",
       "\"num_kv_shared_layers\" is 3; an integer from 0 to 2 is needed"},
      {R"({"num_kv_shared_layers":2})",
       "the last 2 layers read the KV of others, and no layer before layer 1 is of the kind of "
       "layer 1"},
      {R"({"use_bidirectional_attention":"all"})", "not causal"},
      {R"({"global_head_dim":1})", "\"global_head_dim\" is 1"},
      {R"({"global_head_dim":511})", "RoPE rotates 511 of 511"},
      {R"({"num_global_key_value_heads":3})", "shared evenly by 3 KV heads"},
      {R"({"per_layer_config":{"1":{"head_dim":64}}})", "heads of different sizes or numbers"},
      {R"({"per_layer_config":{"1":64}})", "\"1\""},
      {R"({"rope_parameters":{"full_attention":{"rope_type":"dynamic","factor":2.0},
           "sliding_attention":{"rope_type":"default"}}})",
       "\"rope_parameters\" of \"full_attention\" have a type"},
  };
  for (const auto& [text, message] : cases)
    EXPECT_THAT(Gemma4Error(text), HasSubstr(message)) << text;
}

}  // namespace
}  // namespace sluice::files
