#include "files/gguf_gemma3n.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "files/test_configs.h"

namespace sluice::files {
namespace {

using testing::ErrorOf;
using testing::GgufWriter;
using testing::Good;
using ::testing::HasSubstr;
using testing::kBool;
using testing::kFloat32;
using testing::kInt32;

// As llama.cpp's converter writes it: two layers, the second of which sees everything.
GgufWriter Gemma3n(const std::vector<float>& deviations) {
  GgufWriter file = testing::TinyGguf("gemma3n");
  std::erase_if(file.keys,
                [](const auto& key) { return key.name.ends_with("feed_forward_length"); });
  return file.Array("gemma3n.feed_forward_length", kInt32, std::vector<int32_t>{48, 96})
      .Array("gemma3n.attention.sliding_window_pattern", kBool, std::vector<uint8_t>{1, 0})
      .Array("gemma3n.activation_sparsity_scale", kFloat32, deviations)
      .U32("gemma3n.attention.sliding_window", 8)
      .U32("gemma3n.attention.shared_kv_layers", 0)
      .U32("gemma3n.embedding_length_per_layer_input", 12)
      .U32("gemma3n.altup.active_idx", 0)
      .U32("gemma3n.altup.num_inputs", 3)
      .F32("gemma3n.rope.freq_base_swa", 100.0f)
      .Add("per_layer_token_embd.weight", DType::kF32, {2, 24})
      .Add("blk.0.laurel_l.weight", DType::kF32, {6, 64});
}

TEST(GgufGemma3nTest, ReadsWhatTheConverterWrites) {
  const ModelConfig config = Good(Gemma3n({1.5f, -INFINITY}));
  EXPECT_EQ(config.architecture, Architecture::kGemma3n);
  EXPECT_EQ(config.altup.streams, 3);
  EXPECT_FALSE(config.altup.scaled);
  EXPECT_EQ(config.altup.laurel_rank, 6);
  EXPECT_EQ(config.layer_inputs.width, 12);
  EXPECT_EQ(config.layer_inputs.rows, 2);
  EXPECT_EQ(config.attention_scale, 1.0f);
  EXPECT_EQ(config.embedding_scale, 8.0f);
  EXPECT_EQ(config.logit_soft_cap, 30.0f);
  EXPECT_EQ(config.local_rope.theta, 100.0f);
  EXPECT_EQ(config.layers[0].kind, LayerKind::kWindow);
  EXPECT_EQ(config.layers[1].kind, LayerKind::kFull);
  EXPECT_EQ(config.mlp_width_of(config.layers[0]), 48);
  EXPECT_EQ(config.mlp_width_of(config.layers[1]), 96);
  EXPECT_EQ(config.layers[0].gate_deviations, 1.5f);
  EXPECT_FALSE(config.layers[1].gate_deviations.has_value());
  EXPECT_TRUE(Good(Gemma3n({0, 0}).Add("blk.0.altup_correct_scale.weight", DType::kF32, {64}))
                  .altup.scaled);
}

TEST(GgufGemma3nTest, WhatIsNotLegalIsNamed) {
  EXPECT_THAT(ErrorOf(Gemma3n({1.0f})), HasSubstr("is not an array of 2 numbers"));
  EXPECT_THAT(ErrorOf(Gemma3n({1.0f, NAN})), HasSubstr("for layer 1"));
  EXPECT_THAT(ErrorOf(Gemma3n({1.0f, INFINITY})), HasSubstr("for layer 1"));
  const auto with = [](const char* suffix, uint32_t value) {
    GgufWriter file = Gemma3n({0, 0});
    std::erase_if(file.keys, [&](const auto& key) { return key.name.ends_with(suffix); });
    return ErrorOf(file.U32(std::string("gemma3n.") + suffix, value));
  };
  EXPECT_THAT(with("altup.active_idx", 1), HasSubstr("\"gemma3n.altup.active_idx\" is 1"));
  EXPECT_THAT(with("altup.num_inputs", 1), HasSubstr("\"gemma3n.altup.num_inputs\" is 1"));
  EXPECT_THAT(with("attention.shared_kv_layers", 1),
              HasSubstr("no layer before layer 1 is of the kind of layer 1"));
  EXPECT_THAT(with("embedding_length_per_layer_input", 0), HasSubstr("is missing or 0"));
  GgufWriter bare = testing::TinyGguf("gemma3n");
  bare.U32("gemma3n.embedding_length_per_layer_input", 12);
  EXPECT_THAT(ErrorOf(bare), HasSubstr("\"per_layer_token_embd.weight\" is missing"));
  bare.Add("per_layer_token_embd.weight", DType::kF32, {2, 24});
  EXPECT_THAT(ErrorOf(bare), HasSubstr("\"blk.0.laurel_l.weight\" is missing"));
}

}  // namespace
}  // namespace sluice::files
