#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "files/architectures.h"
#include "files/gguf.h"
#include "files/model_config.h"
#include "files/test_configs.h"

namespace sluice::files {
namespace {

using testing::ByteWriter;
using ::testing::ElementsAre;
using testing::ErrorOf;
using testing::GgufWriter;
using testing::Good;
using ::testing::HasSubstr;
using testing::TinyGguf;
using testing::Windows;

// The tiny file of `architecture` with the value of one key replaced.
template <class T>
GgufWriter With(const std::string& key, T value, const std::string& architecture = "llama") {
  GgufWriter file = TinyGguf(architecture);
  for (GgufWriter::Key& known : file.keys) {
    if (known.name == key) known.value = ByteWriter().Put(value).bytes();
  }
  return file;
}
TEST(GgufConfigTest, Llama) {
  const ModelConfig config = Good(TinyGguf("llama")
                                      .String("general.name", "Tiny")
                                      .F32("llama.rope.freq_base", 5e5f)
                                      .U32("tokenizer.ggml.bos_token_id", 1)
                                      .U32("tokenizer.ggml.eot_token_id", 7));
  EXPECT_EQ(config.architecture, Architecture::kLlama);
  EXPECT_EQ(config.name, "Tiny");
  EXPECT_EQ(config.vocab_size, 32);
  EXPECT_EQ(config.hidden_size, 64);
  EXPECT_EQ(config.num_layers, 2);
  EXPECT_EQ(config.num_heads, 4);
  EXPECT_EQ(config.num_kv_heads, 2);
  EXPECT_EQ(config.head_dim, 16);
  EXPECT_EQ(config.intermediate_size, 96);
  EXPECT_EQ(config.context_length, 128);
  EXPECT_EQ(config.norm_eps, 1e-5f);
  EXPECT_TRUE(config.tied_embeddings);
  EXPECT_FALSE(config.attention_bias || config.mlp_bias);
  EXPECT_EQ(config.qk_norm, QkNormKind::kNone);
  EXPECT_EQ(config.activation, ActivationKind::kSilu);
  EXPECT_EQ(config.attention_scale, 0.25f);
  EXPECT_EQ(config.embedding_scale, 1.0f);
  EXPECT_EQ(config.rope.theta, 5e5f);
  EXPECT_EQ(config.rope.rotary_dims, 16);
  EXPECT_TRUE(config.rope.interleaved);
  EXPECT_EQ(config.rope.scaling, RopeScaling::kNone);
  EXPECT_EQ(config.dtype, DType::kF16);
  EXPECT_THAT(config.eos_ids, ElementsAre(2, 7));
  EXPECT_EQ(config.bos_id, 1);
  EXPECT_THAT(Windows(config), ElementsAre(false, false));
}

TEST(GgufConfigTest, AbsentKeysHaveTheirDefaults) {
  GgufWriter file = TinyGguf("llama");
  std::erase_if(file.keys, [](const auto& key) { return key.name.ends_with("head_count_kv"); });
  file.Add("output.weight", DType::kF16, {32, 64});
  const ModelConfig config = Good(file);
  EXPECT_EQ(config.num_kv_heads, 4);
  EXPECT_EQ(config.rope.theta, 10000.0f);
  EXPECT_FALSE(config.tied_embeddings);
  EXPECT_FALSE(config.bos_id.has_value());
}

TEST(GgufConfigTest, RopeIsInterleavedWhereTheConverterPermutes) {
  for (const char* name : {"llama", "smollm3", "mistral3"}) {
    EXPECT_TRUE(Good(TinyGguf(name)).rope.interleaved) << name;
  }
  for (const char* name : {"qwen2", "qwen3", "gemma2", "gemma3", "phi3"}) {
    EXPECT_FALSE(Good(TinyGguf(name)).rope.interleaved) << name;
  }
}

TEST(GgufConfigTest, QwenTraitsComeFromTensorsAndArchitecture) {
  const ModelConfig two = Good(TinyGguf("qwen2").Add("blk.0.attn_q.bias", DType::kF32, {64}));
  EXPECT_TRUE(two.attention_bias);
  EXPECT_FALSE(two.attention_output_bias);
  EXPECT_EQ(two.qk_norm, QkNormKind::kNone);
  const ModelConfig three = Good(TinyGguf("qwen3")
                                     .U32("qwen3.attention.key_length", 32)
                                     .U32("qwen3.attention.value_length", 32));
  EXPECT_EQ(three.qk_norm, QkNormKind::kHead);
  EXPECT_FALSE(three.attention_bias);
  EXPECT_EQ(three.head_dim, 32);
  EXPECT_EQ(three.rope.rotary_dims, 32);
}

TEST(GgufConfigTest, Gemma2AlternatesWindowsAndCapsScores) {
  const ModelConfig config = Good(TinyGguf("gemma2").U32("gemma2.attention.sliding_window", 16));
  EXPECT_THAT(Windows(config), ElementsAre(true, false));
  EXPECT_EQ(config.sliding_window, 16);
  EXPECT_EQ(config.attention_soft_cap, 50.0f);
  EXPECT_EQ(config.logit_soft_cap, 30.0f);
  EXPECT_EQ(config.embedding_scale, 8.0f);
  EXPECT_EQ(config.activation, ActivationKind::kGeluTanh);
  EXPECT_FALSE(config.layers[0].local_rope);
  EXPECT_EQ(Good(TinyGguf("gemma2")).sliding_window, 4096);
  EXPECT_FALSE(Good(TinyGguf("gemma2").F32("gemma2.attn_logit_softcapping", 0.0f))
                   .attention_soft_cap.has_value());
}

TEST(GgufConfigTest, Gemma3HasLocalRopeInFiveOfSixLayers) {
  GgufWriter file = With<uint32_t>("gemma3.block_count", 7, "gemma3");
  file.U32("gemma3.attention.sliding_window", 16).F32("gemma3.rope.freq_base", 1e6f);
  file.String("gemma3.rope.scaling.type", "linear").F32("gemma3.rope.scaling.factor", 8.0f);
  const ModelConfig config = Good(file);
  EXPECT_THAT(Windows(config), ElementsAre(true, true, true, true, true, false, true));
  EXPECT_TRUE(config.layers[0].local_rope);
  EXPECT_FALSE(config.layers[5].local_rope);
  EXPECT_EQ(config.rope.theta, 1e6f);
  EXPECT_EQ(config.rope.scaling, RopeScaling::kLinear);
  EXPECT_EQ(config.local_rope.theta, 10000.0f);
  EXPECT_EQ(config.local_rope.scaling, RopeScaling::kNone);
  EXPECT_EQ(config.local_rope.rotary_dims, 16);
  EXPECT_EQ(config.context_length, 128);
  EXPECT_EQ(config.qk_norm, QkNormKind::kHead);
  EXPECT_FALSE(config.attention_soft_cap.has_value());

  file.Array<uint8_t>("gemma3.attention.sliding_window_pattern", 7, {0, 1, 0, 1, 0, 1, 0});
  EXPECT_THAT(Windows(Good(file)), ElementsAre(false, true, false, true, false, true, false));
  file.keys.pop_back();
  file.Array<uint8_t>("gemma3.attention.sliding_window_pattern", 7, {0, 1});
  EXPECT_THAT(ErrorOf(file), HasSubstr("array of 7 bools"));
}

TEST(GgufConfigTest, BigGemmasScaleScoresByHiddenOverHeads) {
  // 64 / 4 = 16, but a head has 64 dimensions.
  GgufWriter big = With<uint32_t>("gemma2.block_count", 46, "gemma2");
  big.U32("gemma2.attention.key_length", 64).U32("gemma2.attention.value_length", 64);
  EXPECT_EQ(Good(big).attention_scale, 0.25f);
  GgufWriter small = TinyGguf("gemma2");
  small.U32("gemma2.attention.key_length", 64).U32("gemma2.attention.value_length", 64);
  EXPECT_EQ(Good(small).attention_scale, 0.125f);
}

TEST(GgufConfigTest, SmolLM3LeavesEveryFourthLayerWithoutRope) {
  const ModelConfig config = Good(With<uint32_t>("smollm3.block_count", 8, "smollm3"));
  for (int i = 0; i < 8; ++i) EXPECT_EQ(config.layers[i].use_rope, i != 3 && i != 7) << i;
}

TEST(GgufConfigTest, Phi3LongRopeComesFromTensors) {
  GgufWriter file = TinyGguf("phi3");
  file.U32("phi3.rope.scaling.original_context_length", 32)
      .F32("phi3.rope.scaling.attn_factor", 1.19f)
      .AddFloats("rope_factors_long.weight", {1, 2, 3, 4, 5, 6, 7, 8})
      .AddFloats("rope_factors_short.weight", {1, 1, 1, 1, 1, 1, 1, 1});
  const ModelConfig config = Good(file);
  EXPECT_EQ(config.rope.scaling, RopeScaling::kLongRope);
  EXPECT_EQ(config.rope.original_context, 32);
  EXPECT_EQ(config.rope.factor, 4.0f);
  EXPECT_EQ(config.rope.attention_factor, 1.19f);
  EXPECT_EQ(config.rope.long_factor[7], 8.0f);
  EXPECT_EQ(config.rope.short_factor[7], 1.0f);
  EXPECT_EQ(config.context_length, 128);
  // 0 and a window over the context both stand for none.
  EXPECT_THAT(Windows(Good(TinyGguf("phi3").U32("phi3.attention.sliding_window", 0))),
              ElementsAre(false, false));
  EXPECT_THAT(Windows(Good(TinyGguf("phi3").U32("phi3.attention.sliding_window", 128))),
              ElementsAre(false, false));
  EXPECT_THAT(Windows(Good(TinyGguf("phi3").U32("phi3.attention.sliding_window", 127))),
              ElementsAre(true, true));

  file.tensors.pop_back();
  EXPECT_THAT(ErrorOf(file), HasSubstr("one is missing"));
}

TEST(GgufConfigTest, RopeFrequencyFactors) {
  const ModelConfig config =
      Good(TinyGguf("llama").AddFloats("rope_freqs.weight", {1, 1, 1, 2, 4, 8, 8, 8}));
  EXPECT_THAT(config.rope.frequency_factors, ElementsAre(1, 1, 1, 2, 4, 8, 8, 8));
  EXPECT_THAT(ErrorOf(TinyGguf("llama").AddFloats("rope_freqs.weight", {1, 2})),
              HasSubstr("has 2 values"));
  EXPECT_THAT(ErrorOf(TinyGguf("llama").AddFloats("rope_freqs.weight", {1, 1, 1, 1, 1, 1, 1, 0})),
              HasSubstr("holds 0"));
  EXPECT_THAT(ErrorOf(TinyGguf("llama").AddFloats("rope_freqs.weight", {1, 1, 1, 1, 1, 1, 1, NAN})),
              HasSubstr("holds"));
  EXPECT_THAT(ErrorOf(TinyGguf("llama").Add("rope_freqs.weight", DType::kF16, {8})),
              HasSubstr("F32 values"));
}

TEST(GgufConfigTest, LinearAndYarnScalingStretchTheContext) {
  ModelConfig config = Good(TinyGguf("qwen2").F32("qwen2.rope.scale_linear", 2.0f));
  EXPECT_EQ(config.rope.scaling, RopeScaling::kLinear);
  EXPECT_EQ(config.context_length, 256);
  config = Good(TinyGguf("qwen2")
                    .String("qwen2.rope.scaling.type", "yarn")
                    .F32("qwen2.rope.scaling.factor", 4.0f)
                    .U32("qwen2.rope.scaling.original_context_length", 64));
  EXPECT_EQ(config.rope.scaling, RopeScaling::kYarn);
  EXPECT_EQ(config.rope.original_context, 64);
  EXPECT_EQ(config.context_length, 256);
  EXPECT_FALSE(config.rope.attention_factor.has_value());
  EXPECT_THAT(ErrorOf(TinyGguf("qwen2").String("qwen2.rope.scaling.type", "magic")),
              HasSubstr("\"magic\""));
}

TEST(GgufConfigTest, RefusesValuesOutOfRange) {
  struct Case {
    GgufWriter file;
    const char* message;
  };
  const Case cases[] = {
      {With<uint32_t>("llama.block_count", 0), "block_count\" is 0; 1 to 1024"},
      {With<uint32_t>("llama.block_count", 4000000000u), "block_count"},
      {With<uint32_t>("llama.context_length", 0), "context_length"},
      {With<uint32_t>("llama.embedding_length", 0), "embedding_length"},
      {With<uint32_t>("llama.embedding_length", 60), "rows of 60"},
      {With<uint32_t>("llama.feed_forward_length", 0), "feed_forward_length"},
      {With<uint32_t>("llama.attention.head_count", 0), "head_count"},
      {With<uint32_t>("llama.attention.head_count", 64), "head has 1 dimensions"},
      {With<uint32_t>("llama.attention.head_count_kv", 0), "head_count_kv"},
      {With<uint32_t>("llama.attention.head_count_kv", 3), "shared evenly"},
      {With<uint32_t>("llama.attention.head_count_kv", 8), "shared evenly"},
      {With<float>("llama.attention.layer_norm_rms_epsilon", NAN), "epsilon\" is nan"},
      {With<float>("llama.attention.layer_norm_rms_epsilon", 0.0f), "epsilon\" is 0"},
      {With<uint32_t>("tokenizer.ggml.eos_token_id", 0x80000000u), "eos_token_id"},
      {TinyGguf("llama").U32("llama.rope.dimension_count", 15), "even number"},
      {TinyGguf("llama").U32("llama.rope.dimension_count", 18), "rotates 18"},
      {TinyGguf("llama").F32("llama.rope.freq_base", INFINITY), "freq_base"},
      {TinyGguf("llama").F32("llama.rope.freq_base", -1.0f), "freq_base"},
      {TinyGguf("llama").F32("llama.rope.scaling.factor", NAN), "factor"},
      {TinyGguf("llama").U32("llama.attention.value_length", 8), "differ"},
      {TinyGguf("qwen2").U32("qwen2.expert_count", 8), "has 8 experts per layer"},
      {TinyGguf("llama").U32("llama.expert_count", 1025), "expert_count\" is 1025; 0 to 1024"},
      {TinyGguf("llama").U32("llama.expert_count", 8), "expert_used_count\" is missing"},
      {TinyGguf("llama").U32("llama.expert_count", 8).U32("llama.expert_used_count", 0),
       "expert_used_count\" is 0; 1 to 64"},
      {TinyGguf("llama")
           .U32("llama.expert_count", 8)
           .U32("llama.expert_used_count", 9)
           .Add("blk.0.ffn_gate_inp.weight", DType::kF16, {8, 64}),
       "takes 9 experts of 8"},
      {TinyGguf("llama").Bool("llama.attention.causal", false), "not causal"},
      {TinyGguf("mistral3").F32("mistral3.attention.temperature_scale", 0.1f), "by position"},
      {TinyGguf("gemma2").F32("gemma2.attn_logit_softcapping", -1.0f), "softcapping"},
      {TinyGguf("gemma2").U32("gemma2.attention.sliding_window", 0xffffffffu), "sliding_window"},
      {TinyGguf("gptj"), "\"gptj\" is not supported"},
      {TinyGguf("bert").F32("bert.attention.layer_norm_epsilon", 1e-12f),
       "\"position_embd.weight\" is missing"},
      {TinyGguf("qwen3").U32("qwen3.pooling_type", 4), "the folder of Hugging Face"},
      {TinyGguf("qwen3").U32("qwen3.pooling_type", 9), "pooling_type\" is 9; 0 to 4 are legal"},
      {GgufWriter().U32("n", 1), "general.architecture"},
  };
  for (const Case& bad : cases) EXPECT_THAT(ErrorOf(bad.file), HasSubstr(bad.message));
}

TEST(GgufConfigTest, PoolingsMakeModelsThatEmbed) {
  GgufWriter file = TinyGguf("bert");
  file.Bool("bert.attention.causal", false)
      .F32("bert.attention.layer_norm_epsilon", 1e-12f)
      .U32("bert.pooling_type", 2)
      .Add("position_embd.weight", DType::kF32, {40, 64})
      .Add("token_types.weight", DType::kF32, {64});
  const ModelConfig bert = Good(file);
  EXPECT_EQ(bert.architecture, Architecture::kBert);
  EXPECT_EQ(bert.pooling->kind, PoolingKind::kFirst);
  EXPECT_TRUE(bert.pooling->normalize);
  EXPECT_EQ(bert.position_rows, 40);
  EXPECT_EQ(bert.first_position, 0);
  EXPECT_LE(bert.context_length, 40);
  EXPECT_EQ(bert.token_types, 1);
  const ModelConfig embeds = Good(TinyGguf("qwen3").U32("qwen3.pooling_type", 3));
  EXPECT_EQ(embeds.pooling->kind, PoolingKind::kLast);
  EXPECT_FALSE(Good(TinyGguf("qwen3").U32("qwen3.pooling_type", 0)).pooling.has_value());
}

TEST(GgufConfigTest, LayersThatHaveARouterHaveExperts) {
  const auto with_router = [](const std::string& architecture) {
    GgufWriter file = TinyGguf(architecture);
    file.U32(architecture + ".expert_count", 4).U32(architecture + ".expert_used_count", 2);
    file.Add("blk.1.ffn_gate_inp.weight", DType::kF16, {4, 64});
    return file;
  };
  const ModelConfig mixtral = Good(with_router("llama"));
  EXPECT_EQ(mixtral.experts.count, 4);
  EXPECT_EQ(mixtral.experts.per_token, 2);
  EXPECT_EQ(mixtral.experts.width, mixtral.intermediate_size);
  EXPECT_TRUE(mixtral.experts.renormalize);
  EXPECT_FALSE(mixtral.layers[0].experts);
  EXPECT_TRUE(mixtral.layers[1].experts);
  const ModelConfig qwen =
      Good(with_router("qwen3moe").U32("qwen3moe.expert_feed_forward_length", 24));
  EXPECT_EQ(qwen.architecture, Architecture::kQwen3Moe);
  EXPECT_EQ(qwen.experts.width, 24);
  EXPECT_EQ(qwen.qk_norm, QkNormKind::kHead);
  GgufWriter gpt_oss = with_router("gpt-oss");
  gpt_oss.U32("gpt-oss.attention.sliding_window", 16)
      .String("gpt-oss.rope.scaling.type", "yarn")
      .F32("gpt-oss.rope.scaling.factor", 8.0f);
  const ModelConfig sinks = Good(gpt_oss);
  EXPECT_TRUE(sinks.attention_sinks && sinks.experts.product_biases);
  EXPECT_EQ(sinks.activation, ActivationKind::kClampedSwiglu);
  EXPECT_EQ(sinks.layers[0].kind, LayerKind::kWindow);
  EXPECT_EQ(sinks.layers[1].kind, LayerKind::kFull);
  EXPECT_FALSE(sinks.rope.truncate);
  GgufWriter none = TinyGguf("llama");
  none.U32("llama.expert_count", 4).U32("llama.expert_used_count", 2);
  EXPECT_EQ(Good(none).experts.count, 0);
}

TEST(GgufConfigTest, RefusesMissingKeysAndWrongTypes) {
  for (const auto& key : TinyGguf("llama").keys) {
    if (key.name.ends_with("head_count_kv") || key.name.starts_with("tokenizer")) continue;
    GgufWriter file = TinyGguf("llama");
    std::erase_if(file.keys, [&](const auto& k) { return k.name == key.name; });
    EXPECT_THAT(ErrorOf(file), HasSubstr(key.name));
    file.String(key.name, "x");
    EXPECT_NE(ErrorOf(file), "no error") << key.name;
  }
  GgufWriter file = TinyGguf("llama");
  file.tensors.clear();
  EXPECT_THAT(ErrorOf(file), HasSubstr("token_embd.weight"));
  const std::string refused = ErrorOf(TinyGguf("gptj"));
  for (const ArchitectureInfo& known : Architectures()) {
    EXPECT_THAT(refused, HasSubstr(known.gguf_name));
  }
  // One that is not read from GGUF has no name there, and so has a file without one.
  EXPECT_THAT(ErrorOf(TinyGguf("")), HasSubstr("not supported"));
}

TEST(GgufConfigTest, PerLayerCountsMustAgree) {
  const auto with = [](const std::vector<int32_t>& counts) {
    GgufWriter file = TinyGguf("llama");
    std::erase_if(file.keys, [](const auto& key) { return key.name.ends_with("head_count_kv"); });
    return file.Array("llama.attention.head_count_kv", 5, counts);
  };
  EXPECT_EQ(Good(with({2, 2})).num_kv_heads, 2);
  EXPECT_THAT(ErrorOf(with({2, 4})), HasSubstr("differs between layers"));
  EXPECT_THAT(ErrorOf(with({2})), HasSubstr("array of 2 integers"));
  EXPECT_THAT(ErrorOf(with({-1, -1})), HasSubstr("is -1"));
}

TEST(GgufConfigTest, IdsBeyondTheVocabularyAreDropped) {
  const ModelConfig config = Good(TinyGguf("llama")
                                      .U32("tokenizer.ggml.eot_token_id", 32)
                                      .U32("tokenizer.ggml.bos_token_id", 0xffffffffu));
  EXPECT_THAT(config.eos_ids, ElementsAre(2));
  EXPECT_FALSE(config.bos_id.has_value());
}

TEST(GgufConfigTest, SamplingKeysBecomeDefaults) {
  const auto defaults = [](const GgufWriter& writer) {
    const auto bytes = writer.Bytes();
    return GenerationDefaultsFromGguf(*GgufFile::FromMemory(bytes, "tiny.gguf").value());
  };
  auto good = defaults(GgufWriter()
                           .F32("general.sampling.temp", 0.5f)
                           .Scalar<int32_t>("general.sampling.top_k", 5, 40));
  ASSERT_TRUE(good.ok());
  EXPECT_EQ(good->sampling.temperature, 0.5f);
  EXPECT_EQ(good->sampling.top_k, 40);
  EXPECT_FALSE(good->sampling.top_p.has_value());
  EXPECT_FALSE(defaults(GgufWriter().F32("general.sampling.top_p", 1.5f)).ok());
  EXPECT_FALSE(defaults(GgufWriter().F32("general.sampling.temp", NAN)).ok());
}

TEST(GgufConfigTest, FactorsAndLayerNorms) {
  const ModelConfig granite = Good(TinyGguf("granite")
                                       .F32("granite.embedding_scale", 12.0f)
                                       .F32("granite.residual_scale", 0.25f)
                                       .F32("granite.logit_scale", 8.0f)
                                       .F32("granite.attention.scale", 0.5f));
  EXPECT_EQ(granite.embedding_scale, 12.0f);
  EXPECT_EQ(granite.residual_scale, 0.25f);
  EXPECT_EQ(granite.logit_scale, 0.125f);
  EXPECT_EQ(granite.attention_scale, 0.5f);
  EXPECT_EQ(Good(TinyGguf("granite").F32("granite.residual_scale", 0.0f)).residual_scale, 1.0f);
  EXPECT_THAT(ErrorOf(TinyGguf("starcoder2")), HasSubstr("layer_norm_epsilon\" is missing"));
  const ModelConfig star =
      Good(TinyGguf("starcoder2").F32("starcoder2.attention.layer_norm_epsilon", 0.001f));
  EXPECT_EQ(star.norm_eps, 0.001f);
  EXPECT_TRUE(star.plain_mlp);
  EXPECT_THAT(ErrorOf(TinyGguf("olmo2").U32("olmo2.attention.sliding_window", 16)),
              HasSubstr("OLMo 3"));
}

}  // namespace
}  // namespace sluice::files
