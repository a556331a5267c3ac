#include "files/gguf_gemma4.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "files/test_configs.h"

namespace sluice::files {
namespace {

using testing::ErrorOf;
using testing::GgufWriter;
using testing::Good;
using ::testing::HasSubstr;
using testing::kBool;
using testing::kInt32;

// As llama.cpp's converter writes it: two layers, the second of which sees everything.
GgufWriter Gemma4(const std::vector<int32_t>& kv_heads, const std::vector<int32_t>& widths) {
  GgufWriter file = testing::TinyGguf("gemma4");
  std::erase_if(file.keys, [](const auto& key) {
    return key.name.ends_with("head_count_kv") || key.name.ends_with("feed_forward_length");
  });
  return file.Array("gemma4.attention.head_count_kv", kInt32, kv_heads)
      .Array("gemma4.feed_forward_length", kInt32, widths)
      .Array("gemma4.attention.sliding_window_pattern", kBool, std::vector<uint8_t>{1, 0})
      .U32("gemma4.attention.sliding_window", 8)
      .U32("gemma4.attention.key_length", 32)
      .U32("gemma4.attention.value_length", 32)
      .U32("gemma4.attention.key_length_swa", 16)
      .U32("gemma4.rope.dimension_count", 32)
      .U32("gemma4.rope.dimension_count_swa", 16)
      .F32("gemma4.rope.freq_base_swa", 100.0f);
}

TEST(GgufGemma4Test, EachKindOfLayersHasHeadsAndAnglesOfItsOwn) {
  const ModelConfig config = Good(Gemma4({4, 1}, {48, 48}));
  EXPECT_EQ(config.architecture, Architecture::kGemma4);
  const LayerConfig &window = config.layers[0], &full = config.layers[1];
  EXPECT_EQ(window.kind, LayerKind::kWindow);
  EXPECT_EQ(config.head_dim_of(window), 16);
  EXPECT_EQ(config.kv_heads_of(window), 4);
  EXPECT_TRUE(window.local_rope);
  EXPECT_EQ(full.kind, LayerKind::kFull);
  EXPECT_EQ(config.head_dim_of(full), 32);
  EXPECT_EQ(config.kv_heads_of(full), 1);
  EXPECT_EQ(config.rope.rotary_dims, 32);
  EXPECT_EQ(config.local_rope.rotary_dims, 16);
  EXPECT_EQ(config.local_rope.theta, 100.0f);
  EXPECT_EQ(config.sliding_window, 8);
  EXPECT_EQ(config.attention_scale, 1.0f);
  EXPECT_EQ(config.embedding_scale, 8.0f);
  EXPECT_EQ(config.layer_inputs.width, 0);
  // Without a matrix for it V is made of K.
  EXPECT_TRUE(window.v_is_k && full.v_is_k);
  EXPECT_FALSE(Good(Gemma4({4, 1}, {48, 48}).Add("blk.1.attn_v.weight", DType::kF32, {32, 64}))
                   .layers[1]
                   .v_is_k);
}

TEST(GgufGemma4Test, LayersMayReadTheKvOfOthersAndBeWider) {
  GgufWriter file = Gemma4({2, 2}, {48, 96});
  std::erase_if(file.keys, [](const auto& key) {
    return key.name.ends_with("sliding_window_pattern") || key.name.ends_with("key_length_swa") ||
           key.name.ends_with("dimension_count_swa");
  });
  file.Array("gemma4.attention.sliding_window_pattern", kBool, std::vector<uint8_t>{0, 0})
      .U32("gemma4.attention.shared_kv_layers", 1);
  const ModelConfig config = Good(file);
  EXPECT_EQ(config.layers[0].kv_of, -1);
  EXPECT_EQ(config.layers[1].kv_of, 0);
  EXPECT_FALSE(config.layers[1].v_is_k);
  EXPECT_EQ(config.mlp_width_of(config.layers[0]), 48);
  EXPECT_EQ(config.mlp_width_of(config.layers[1]), 96);
}

TEST(GgufGemma4Test, TheTableOfInputsHasARowForEachToken) {
  const GgufWriter file =
      Gemma4({2, 2}, {48, 48}).U32("gemma4.embedding_length_per_layer_input", 12);
  EXPECT_THAT(ErrorOf(file), HasSubstr("\"per_layer_token_embd.weight\" is missing"));
  EXPECT_THAT(ErrorOf(GgufWriter(file).Add("per_layer_token_embd.weight", DType::kF32, {2, 24})),
              HasSubstr("has 2 rows; it must have at least one for each"));
  const LayerInputsConfig inputs =
      Good(GgufWriter(file).Add("per_layer_token_embd.weight", DType::kF32, {200, 24}))
          .layer_inputs;
  EXPECT_EQ(inputs.width, 12);
  EXPECT_EQ(inputs.rows, 200);
}

TEST(GgufGemma4Test, WhatIsNotLegalIsNamed) {
  EXPECT_THAT(ErrorOf(Gemma4({2}, {48, 48})), HasSubstr("an array of 2 integers"));
  EXPECT_THAT(ErrorOf(Gemma4({2, 2}, {48, 0})), HasSubstr("\"gemma4.feed_forward_length\" is 0"));
  EXPECT_THAT(ErrorOf(Gemma4({2, 2}, {48, 48}).U32("gemma4.attention.shared_kv_layers", 1)),
              HasSubstr("no layer before layer 1 is of the kind of layer 1"));
}

TEST(GgufGemma4Test, ExpertsStandBesideTheDensePart) {
  const ExpertsConfig experts = Good(Gemma4({2, 2}, {48, 48})
                                         .U32("gemma4.expert_count", 6)
                                         .U32("gemma4.expert_used_count", 2)
                                         .U32("gemma4.expert_feed_forward_length", 24)
                                         .Add("blk.0.ffn_gate_inp.weight", DType::kF32, {6, 64}))
                                    .experts;
  EXPECT_EQ(experts.count, 6);
  EXPECT_EQ(experts.width, 24);
  EXPECT_TRUE(experts.renormalize && experts.scales && experts.beside_dense);
}

}  // namespace
}  // namespace sluice::files
