#include "files/speculators_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice::files {
namespace {

using ::testing::HasSubstr;

Json HeadOfKind(const char* kind) {
  return {{"speculators_model_type", kind},
          {"architectures", {"Eagle3DraftModel"}},
          {"draft_vocab_size", 3},
          {"target_hidden_size", nullptr},
          {"mask_token_id", 7},
          {"transformer_layer_config", {{"model_type", "llama"}, {"num_hidden_layers", 2}}}};
}

TEST(SpeculatorsConfig, IsKnownByItsKind) {
  EXPECT_TRUE(IsSpeculators(HeadOfKind("eagle3")));
  EXPECT_FALSE(IsSpeculators({{"architectures", {"LlamaForCausalLMEagle3"}}}));
}

TEST(SpeculatorsConfig, WhatIsSaidOfTheHeadStandsBesideItsLayers) {
  Json config = HeadOfKind("peagle");
  config["transformer_layer_config"]["model_type"] = "qwen3";
  config["speculators_config"] = {{"proposal_methods", {{{"speculative_tokens", 5}}}}};
  const auto head = ReadSpeculators(config);
  ASSERT_TRUE(head.ok()) << head.status().message();
  EXPECT_EQ(head->form, EagleForm::kParallel);
  EXPECT_EQ(head->block_tokens, 5);
  EXPECT_EQ(head->config["architectures"][0], "Qwen3ForCausalLM");
  EXPECT_EQ(head->config["num_hidden_layers"], 2);
  EXPECT_EQ(head->config["draft_vocab_size"], 3);
  EXPECT_EQ(head->config["mask_token_id"], 7);
  EXPECT_FALSE(head->config.contains("target_hidden_size"));
  EXPECT_FALSE(head->config.contains("norm_before_residual"));
}

// As vLLM takes them.
TEST(SpeculatorsConfig, WhatIsNotSaidHasADefault) {
  EXPECT_EQ(ReadSpeculators(HeadOfKind("eagle3"))->config["norm_before_residual"], true);
  const auto first = ReadSpeculators(HeadOfKind("eagle"));
  ASSERT_TRUE(first.ok()) << first.status().message();
  EXPECT_EQ(first->form, EagleForm::kFirst);
  EXPECT_EQ(first->config["num_hidden_layers"], 1);
  EXPECT_EQ(ReadSpeculators(HeadOfKind("peagle"))->block_tokens, 0);
}

TEST(SpeculatorsConfig, WhatIsWrongIsSaid) {
  const auto error = [](const Json& config) {
    const auto head = ReadSpeculators(config);
    EXPECT_EQ(head.status().code(), StatusCode::kBadModel);
    return head.status().message();
  };
  EXPECT_THAT(error(HeadOfKind("dflash")),
              HasSubstr("\"speculators_model_type\" is \"dflash\"; eagle, eagle3 and peagle are"));
  Json config = HeadOfKind("eagle3");
  config["speculators_model_type"] = 3;
  EXPECT_THAT(error(config), HasSubstr("\"speculators_model_type\" is 3"));
  config = HeadOfKind("eagle3");
  config["transformer_layer_config"] = "llama";
  EXPECT_THAT(error(config), HasSubstr("has no object \"transformer_layer_config\""));
  config = HeadOfKind("eagle3");
  config["transformer_layer_config"]["model_type"] = "mixtral";
  EXPECT_THAT(error(config),
              HasSubstr("layers of the head are those of \"mixtral\"; llama and qwen3 are"));
  config = HeadOfKind("eagle");
  config["transformer_layer_config"]["model_type"] = "qwen3";
  EXPECT_THAT(error(config), HasSubstr("are those of \"qwen3\"; llama is supported"));
  config = HeadOfKind("peagle");
  config["speculators_config"] = {{"proposal_methods", {{{"speculative_tokens", 0}}}}};
  EXPECT_THAT(error(config), HasSubstr("\"speculative_tokens\" is 0"));
}

}  // namespace
}  // namespace sluice::files
