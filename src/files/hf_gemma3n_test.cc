#include "files/hf_gemma3n.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "files/test_configs.h"

namespace sluice::files {
namespace {

using ::testing::HasSubstr;

// As the published E2B has it, but for the sizes.
Json PublishedGemma3n() {
  return Json::parse(R"({"architectures":["Gemma3nForConditionalGeneration"],
      "model_type":"gemma3n","text_config":{"model_type":"gemma3n_text",
      "activation_sparsity_pattern":[0.95,0.95,0.0,0.0],"altup_active_idx":0,
      "altup_coef_clip":120.0,"altup_correct_scale":true,"altup_num_inputs":4,
      "attention_bias":false,"final_logit_softcapping":30.0,"head_dim":256,
      "hidden_activation":"gelu_pytorch_tanh","hidden_size":64,"hidden_size_per_layer_input":24,
      "intermediate_size":[96,96,96,96],"laurel_rank":16,
      "layer_types":["sliding_attention","full_attention","sliding_attention","full_attention"],
      "max_position_embeddings":32768,"num_attention_heads":8,"num_hidden_layers":4,
      "num_key_value_heads":2,"num_kv_shared_layers":2,"rms_norm_eps":1e-06,
      "rope_local_base_freq":10000.0,"rope_scaling":null,"rope_theta":1000000.0,
      "sliding_window":512,"vocab_size":100,"vocab_size_per_layer_input":90}})");
}

Result<ModelConfig> Gemma3nConfig(const std::string& text) {
  Json json = PublishedGemma3n();
  json["text_config"].update(Json::parse(text));
  return ConfigFromJson(DumpJson(json), "");
}
ModelConfig GoodGemma3n(const std::string& text) {
  return testing::GoodConfig(Gemma3nConfig(text));
}
std::string Gemma3nError(const std::string& text) {
  return testing::ConfigError(Gemma3nConfig(text));
}

TEST(HfGemma3nTest, ReadsThePublishedForm) {
  const ModelConfig config = GoodGemma3n("{}");
  EXPECT_EQ(config.architecture, Architecture::kGemma3n);
  EXPECT_EQ(config.altup.streams, 4);
  EXPECT_TRUE(config.altup.scaled);
  EXPECT_EQ(config.altup.laurel_rank, 16);
  EXPECT_EQ(config.layer_inputs.width, 24);
  EXPECT_EQ(config.layer_inputs.rows, 90);  // fewer than tokens
  EXPECT_EQ(config.attention_scale, 1.0f);
  EXPECT_EQ(config.embedding_scale, 8.0f);
  EXPECT_EQ(config.logit_soft_cap, 30.0f);
  EXPECT_TRUE(config.tied_embeddings);
  EXPECT_EQ(config.qk_norm, QkNormKind::kHead);
  EXPECT_EQ(config.rope.theta, 1e6f);
  EXPECT_EQ(config.local_rope.theta, 1e4f);
  ASSERT_EQ(config.layers.size(), 4u);
  EXPECT_TRUE(config.layers[0].local_rope && !config.layers[1].local_rope);
  EXPECT_EQ(config.layers[0].kind, LayerKind::kWindow);
  EXPECT_EQ(config.layers[1].kv_of, -1);
  EXPECT_EQ(config.layers[2].kv_of, 0);
  EXPECT_EQ(config.layers[3].kv_of, 1);
  ASSERT_TRUE(config.layers[1].gate_deviations.has_value());
  EXPECT_NEAR(*config.layers[1].gate_deviations, 1.6448536, 1e-6);
  EXPECT_FALSE(config.layers[2].gate_deviations.has_value());
}

TEST(HfGemma3nTest, LayersMayHaveWidthsOfTheirOwn) {
  EXPECT_EQ(GoodGemma3n(R"({"intermediate_size":80})").intermediate_size, 80);
  const ModelConfig config = GoodGemma3n(R"({"intermediate_size":[96,96,48,96]})");
  EXPECT_EQ(config.mlp_width_of(config.layers[1]), 96);
  EXPECT_EQ(config.mlp_width_of(config.layers[2]), 48);
}

TEST(HfGemma3nTest, AFileThatIsSilentHasWhatTransformersTakes) {
  const ModelConfig config = testing::GoodConfig(
      ConfigFromJson(R"({"architectures":["Gemma3nForCausalLM"],"num_hidden_layers":35})", ""));
  EXPECT_EQ(config.altup.streams, 4);
  EXPECT_EQ(config.altup.laurel_rank, 64);
  EXPECT_EQ(config.layer_inputs.width, 256);
  EXPECT_EQ(config.layer_inputs.rows, 262144);
  EXPECT_EQ(config.logit_soft_cap, 30.0f);
  EXPECT_EQ(config.sliding_window, 512);
  EXPECT_EQ(config.layers[3].kind, LayerKind::kWindow);
  EXPECT_EQ(config.layers[4].kind, LayerKind::kFull);
  EXPECT_EQ(config.layers[19].kv_of, -1);
  EXPECT_EQ(config.layers[20].kv_of, 18);
  EXPECT_EQ(config.layers[24].kv_of, 19);
  EXPECT_TRUE(config.layers[9].gate_deviations.has_value());
  EXPECT_FALSE(config.layers[10].gate_deviations.has_value());
  const std::string few =
      R"({"architectures":["Gemma3nForCausalLM"],"num_hidden_layers":10,"num_kv_shared_layers":5})";
  EXPECT_FALSE(testing::GoodConfig(ConfigFromJson(few, "")).layers[0].gate_deviations.has_value());
}

TEST(HfGemma3nTest, AQuantileHasItsShareBelow) {
  EXPECT_NEAR(NormalQuantile(0.5), 0.0, 1e-12);
  EXPECT_NEAR(NormalQuantile(0.975), 1.959963984540054, 1e-12);
  EXPECT_NEAR(NormalQuantile(0.001), -3.090232306167813, 1e-12);
}

TEST(HfGemma3nTest, RefusesWhatIsNotSupported) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"altup_active_idx":1})", "\"altup_active_idx\" is 1"},
      {R"({"altup_num_inputs":5})", "\"altup_num_inputs\" is 5; an integer from 2 to 4"},
      {R"({"laurel_rank":0})", "\"laurel_rank\" is 0"},
      {R"({"hidden_size_per_layer_input":0})", "\"hidden_size_per_layer_input\" is 0"},
      {R"({"intermediate_size":[96,96]})", "a list of 2 widths; one, or 4"},
      {R"({"intermediate_size":[96,96,0,96]})", "\"intermediate_size\""},
      {R"({"activation_sparsity_pattern":[0.95]})", "a list of 1 shares; 4"},
      {R"({"activation_sparsity_pattern":[0.95,0.5,1.0,0.0]})", "\"activation_sparsity_pattern\""},
      {R"({"num_kv_shared_layers":4})", "\"num_kv_shared_layers\" is 4 of 4 layers"},
      {R"({"num_kv_shared_layers":3})", "no layer before layer 1 is of the kind of layer 1"},
  };
  for (const auto& [text, message] : cases)
    EXPECT_THAT(Gemma3nError(text), HasSubstr(message)) << text;
}

}  // namespace
}  // namespace sluice::files
