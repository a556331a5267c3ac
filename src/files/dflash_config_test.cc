// config.json of heads of DFlash's form, as a folder is opened.
#include "files/dflash_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/str_cat.h"
#include "files/eagle_files.h"
#include "files/test_files.h"

namespace sluice::files {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Json PublishedDflash() {
  return {{"architectures", {"DFlashDraftModel"}},
          {"model_type", "qwen3"},
          {"attention_bias", false},
          {"block_size", 16},
          {"dflash_config", {{"mask_token_id", 7}, {"target_layer_ids", {1, 9, 17, 25, 33}}}},
          {"head_dim", 4},
          {"hidden_act", "silu"},
          {"hidden_size", 8},
          {"intermediate_size", 16},
          {"layer_types", {"full_attention", "full_attention"}},
          {"max_position_embeddings", 64},
          {"num_attention_heads", 2},
          {"num_hidden_layers", 2},
          {"num_key_value_heads", 1},
          {"num_target_layers", 36},
          {"rms_norm_eps", 1e-6},
          {"rope_theta", 1000000},
          {"sliding_window", nullptr},
          {"tie_word_embeddings", true},
          {"use_sliding_window", false},
          {"vocab_size", 10}};
}

// With a tensor of this name, which nobody reads.
Result<EagleFiles> OpenDflash(const Json& config, const std::string& tensor = "fc.weight") {
  testing::TempFolder folder;
  folder.Write("config.json", DumpJson(config));
  folder.Write(
      "model.safetensors",
      testing::SafetensorsBytes(
          StrCat("{\"", tensor, R"(":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]}})"), 4));
  EXPECT_TRUE(IsEagle(folder.path()));
  return OpenEagle(folder.path());
}

std::string Error(const Json& config, const std::string& tensor = "fc.weight") {
  const auto opened = OpenDflash(config, tensor);
  if (opened.ok()) return "no error";
  EXPECT_EQ(opened.status().code(), StatusCode::kBadModel);
  return opened.status().message();
}

TEST(DFlashConfig, AHeadIsReadAsItIsPublished) {
  const auto opened = OpenDflash(PublishedDflash());
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  const EagleConfig& config = opened->config;
  EXPECT_EQ(config.form, EagleForm::kDiffusion);
  EXPECT_THAT(config.hidden_layers, ElementsAre(1, 9, 17, 25, 33));
  EXPECT_EQ(config.read_width(), 5 * 8);
  EXPECT_EQ(config.mask_token, 7);
  EXPECT_EQ(config.block_tokens, 15) << "guesses";
  EXPECT_EQ(config.layer.num_layers, 2);
  EXPECT_EQ(config.layer.qk_norm, QkNormKind::kHead);
  EXPECT_FALSE(config.own_embedding);
}

TEST(DFlashConfig, WhatIsSaidOfTheHeadStandsInItsObjectOrBesideIt) {
  Json config = PublishedDflash();
  config["dflash_config"] = {{"block_size", 10}};
  config.erase("block_size");
  config["mask_token_id"] = 3;
  config["target_layer_ids"] = {0, 5};
  const auto opened = OpenDflash(config);
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  EXPECT_EQ(opened->config.block_tokens, 9);
  EXPECT_EQ(opened->config.mask_token, 3);
  EXPECT_THAT(opened->config.hidden_layers, ElementsAre(0, 5));
}

TEST(DFlashConfig, LayersThatAreNotNamedAreThoseOfItsTrainer) {
  Json config = PublishedDflash();
  config["dflash_config"].erase("target_layer_ids");
  EXPECT_THAT(OpenDflash(config)->config.hidden_layers, ElementsAre(1, 33));
  config["num_hidden_layers"] = 5;
  config.erase("layer_types");
  EXPECT_THAT(OpenDflash(config)->config.hidden_layers, ElementsAre(1, 9, 17, 25, 33));
  config["num_hidden_layers"] = 1;
  EXPECT_THAT(OpenDflash(config)->config.hidden_layers, ElementsAre(18));
  config.erase("num_target_layers");
  EXPECT_THAT(Error(config), HasSubstr("does not say which layers of the model it reads"));
}

TEST(DFlashConfig, WhatIsWrongIsSaid) {
  Json config = PublishedDflash();
  config["dflash_config"]["target_layer_ids"] = {9, 1};
  EXPECT_THAT(Error(config), HasSubstr("which do not ascend"));
  config = PublishedDflash();
  config["dflash_config"].erase("mask_token_id");
  EXPECT_THAT(Error(config), HasSubstr("names no mask token"));
  config = PublishedDflash();
  config["dflash_config"]["mask_token_id"] = 10;
  EXPECT_THAT(Error(config), HasSubstr("\"mask_token_id\" is 10, and the vocabulary has 10"));
  config = PublishedDflash();
  config["block_size"] = 1;
  EXPECT_THAT(Error(config), HasSubstr("block_size"));
  config = PublishedDflash();
  config["num_target_layers"] = 2;
  config["dflash_config"].erase("target_layer_ids");
  EXPECT_THAT(Error(config), HasSubstr("too few layers for the 2"));
}

TEST(DFlashConfig, FormsThatAreDerivedFromItAreRefused) {
  Json config = PublishedDflash();
  config["architectures"] = {"DFlash2DraftModel"};
  EXPECT_THAT(Error(config), HasSubstr("\"DFlash2DraftModel\"; DFlashDraftModel is supported"));
  for (const char* const key :
       {"fc_layernorm", "use_swa", "causal", "attention_sink_bias", "is_causal"}) {
    config = PublishedDflash();
    config["dflash_config"][key] = false;
    EXPECT_TRUE(OpenDflash(config).ok()) << key;
    config["dflash_config"][key] = true;
    EXPECT_THAT(Error(config), HasSubstr(key));
  }
  config = PublishedDflash();
  config["output_multiplier"] = 1.0;
  EXPECT_TRUE(OpenDflash(config).ok());
  config["output_multiplier"] = 0.5;
  EXPECT_THAT(Error(config), HasSubstr("output_multiplier"));
  config = PublishedDflash();
  config["layer_types"] = {"sliding_attention", "full_attention"};
  config["use_sliding_window"] = true;
  config["sliding_window"] = 16;
  EXPECT_THAT(Error(config), HasSubstr("windows"));
  for (const char* const tensor : {"lm_head.weight", "mask_embedding"})
    EXPECT_THAT(Error(PublishedDflash(), tensor), HasSubstr(tensor));
}

}  // namespace
}  // namespace sluice::files
