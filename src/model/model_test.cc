// Layer groups, RoPE's rules, the workspace and the declared parameters: all that needs no device.
#include "model/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "files/architectures.h"
#include "files/config_check.h"
#include "files/synthetic_model.h"
#include "model/layers/activations.h"
#include "model/layers/lightning_attention.h"
#include "model/layers/rope_table.h"
#include "model/load_model.h"

namespace sluice::model {
namespace {

using files::Architecture;
using files::LayerKind;
using files::ModelConfig;
using files::RopeConfig;
using files::RopeScaling;
using layers::ComputeRopeFrequencies;
using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::FloatEq;

ModelConfig SmallConfig(Architecture architecture) {
  ModelConfig config;
  config.architecture = architecture;
  config.vocab_size = 100;
  config.hidden_size = 64;
  config.num_layers = 6;
  config.num_heads = 4;
  config.num_kv_heads = 2;
  config.head_dim = 16;
  config.intermediate_size = 96;
  config.context_length = 128;
  config.rope.rotary_dims = 16;
  config.layers.resize(6);
  return config;
}

TEST(LayerGroups, OneGroupPerKindInOrderOfItsFirstLayer) {
  ModelConfig config = SmallConfig(Architecture::kGemma3);
  config.sliding_window = 32;
  for (int i = 0; i < 6; ++i) {
    config.layers[i].kind = i % 3 == 2 ? LayerKind::kFull : LayerKind::kWindow;
  }
  ModelOptions options;
  options.kernel_block_tokens = 8;
  options.kv_dtype = DType::kBF16;
  const std::vector<batch::KvGroup> groups = LayerGroups(config, options);
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].kind, batch::KvKind::kWindow);
  EXPECT_EQ(groups[0].window, 32);
  EXPECT_THAT(groups[0].layers, ElementsAre(0, 1, 3, 4));
  EXPECT_EQ(groups[1].kind, batch::KvKind::kFull);
  EXPECT_EQ(groups[1].window, 0);
  EXPECT_THAT(groups[1].layers, ElementsAre(2, 5));
  EXPECT_EQ(groups[1].kv_heads, 2);
  EXPECT_EQ(groups[1].k_head_dim, 16);
  EXPECT_EQ(groups[1].v_head_dim, 16);
  EXPECT_EQ(groups[1].kernel_block_tokens, 8);
  EXPECT_EQ(groups[1].dtype, DType::kBF16);
}

TEST(LayerGroups, AModelWithoutWindowsHasOne) {
  const ModelConfig config = SmallConfig(Architecture::kLlama);
  const std::vector<batch::KvGroup> groups = LayerGroups(config, {});
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0].layers.size(), 6u);
}

ModelConfig SmallQwen3Next() {
  ModelConfig config = SmallConfig(Architecture::kQwen3Next);
  config.qk_norm = files::QkNormKind::kHead;
  config.attention_gate = true;
  config.linear = {
      .key_heads = 2, .value_heads = 6, .key_head_dim = 4, .value_head_dim = 5, .conv_kernel = 3};
  for (int i : {0, 1, 3, 4}) config.layers[i].kind = LayerKind::kLinear;
  return config;
}

TEST(LayerGroups, LayersOfOneKindWithOtherHeadsAreAGroupOfTheirOwn) {
  ModelConfig config = SmallConfig(Architecture::kLlama);
  config.layers[1].head_dim = 2 * config.head_dim;
  config.layers[2].kv_heads = config.num_heads;
  const std::vector<batch::KvGroup> groups = LayerGroups(config, {});
  ASSERT_EQ(groups.size(), 3u);
  EXPECT_THAT(groups[0].layers, ElementsAre(0, 3, 4, 5));
  EXPECT_THAT(groups[1].layers, ElementsAre(1));
  EXPECT_EQ(groups[1].k_head_dim, 2 * config.head_dim);
  EXPECT_EQ(groups[1].v_head_dim, 2 * config.head_dim);
  EXPECT_EQ(groups[1].kv_heads, config.num_kv_heads);
  EXPECT_THAT(groups[2].layers, ElementsAre(2));
  EXPECT_EQ(groups[2].kv_heads, config.num_heads);
  EXPECT_TRUE(batch::ValidateSizes(groups).ok());
}

TEST(LayerGroups, LayersWithAStateKeepItInF32WhateverTheKvCacheIs) {
  ModelOptions options;
  options.kv_dtype = DType::kF8E4M3;
  options.state_block_tokens = 64;
  const std::vector<batch::KvGroup> groups = LayerGroups(SmallQwen3Next(), options);
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].kind, batch::KvKind::kState);
  EXPECT_THAT(groups[0].layers, ElementsAre(0, 1, 3, 4));
  EXPECT_EQ(groups[0].dtype, DType::kF32);
  EXPECT_EQ(groups[0].block_tokens, 64);
  EXPECT_EQ(groups[0].kernel_block_tokens, 64);
  EXPECT_EQ(groups[0].kv_heads * groups[0].k_head_dim, 6 * 4 * 5);
  EXPECT_EQ(groups[0].kv_heads * groups[0].v_head_dim, 2 * (2 * 8 + 30));
  EXPECT_EQ(groups[1].kind, batch::KvKind::kFull);
  EXPECT_THAT(groups[1].layers, ElementsAre(2, 5));
  EXPECT_EQ(groups[1].dtype, DType::kF8E4M3);
  EXPECT_EQ(groups[1].block_tokens, 16);
}

ModelConfig SmallLfm2() {
  ModelConfig config = SmallConfig(Architecture::kLfm2);
  config.qk_norm = files::QkNormKind::kHead;
  config.short_conv = {.kernel = 3, .bias = true};
  for (int i : {0, 1, 3, 4}) config.layers[i].kind = LayerKind::kShortConv;
  return config;
}

TEST(LayerGroups, AConvolutionAloneKeepsItsLastInputs) {
  ModelOptions options;
  options.draft_tokens = 2;
  const std::vector<batch::KvGroup> groups = LayerGroups(SmallLfm2(), options);
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].kind, batch::KvKind::kState);
  EXPECT_THAT(groups[0].layers, ElementsAre(0, 1, 3, 4));
  EXPECT_EQ(groups[0].dtype, DType::kF32);
  EXPECT_EQ(groups[0].kv_heads * groups[0].k_head_dim, 2 * 64);
  EXPECT_EQ(groups[0].v_head_dim, 0);
  EXPECT_EQ(groups[0].states, 3);
  EXPECT_THAT(groups[1].layers, ElementsAre(2, 5));
}

ModelConfig SmallMamba2() {
  ModelConfig config = SmallConfig(Architecture::kMamba2);
  config.linear = {.key_heads = 2,
                   .value_heads = 6,
                   .key_head_dim = 4,
                   .value_head_dim = 5,
                   .conv_kernel = 3,
                   .mamba = true,
                   .conv_bias = true};
  files::MakeMambaAlone(&config);
  return config;
}

TEST(LayerGroups, AModelOfMambaAloneKeepsStatesAlone) {
  ModelOptions options;
  options.draft_tokens = 3;
  const std::vector<batch::KvGroup> groups = LayerGroups(SmallMamba2(), options);
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0].kind, batch::KvKind::kState);
  EXPECT_THAT(groups[0].layers, ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_EQ(groups[0].k_head_dim, 6 * 4 * 5);
  EXPECT_EQ(groups[0].v_head_dim, 2 * (2 * 2 * 4 + 6 * 5));
  EXPECT_EQ(groups[0].states, 4);
}

ModelConfig SmallMiniMax() {
  ModelConfig config = SmallConfig(Architecture::kMiniMax);
  config.linear = {.key_heads = 4, .value_heads = 4, .key_head_dim = 16, .value_head_dim = 16};
  for (files::LayerConfig& layer : config.layers) layer.mixer_residual = layer.mlp_residual = 3.5f;
  for (int i : {0, 1, 3, 4}) config.layers[i].kind = LayerKind::kLightning;
  return config;
}

TEST(LayerGroups, LightningAttentionKeepsNoRowsOfAConvolution) {
  const std::vector<batch::KvGroup> groups = LayerGroups(SmallMiniMax(), {});
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].kind, batch::KvKind::kState);
  EXPECT_EQ(groups[0].k_head_dim, 4 * 16 * 16);
  EXPECT_EQ(groups[0].v_head_dim, 0);
  EXPECT_THAT(groups[1].layers, ElementsAre(2, 5));
}

TEST(Lightning, DecaysAreThoseOfTransformers) {
  // Of 4 heads: powers of a quarter, times what the layer's number makes of them.
  const std::vector<float> first = layers::LightningDecays(4, 0, 3);
  EXPECT_THAT(first, ElementsAre(FloatEq(-0.25f * 1.00001f), FloatEq(-0.0625f * 1.00001f),
                                 FloatEq(-0.015625f * 1.00001f), FloatEq(-0.00390625f * 1.00001f)));
  const double last = 1.0 - 2 / 2.00001 + 1e-5;
  EXPECT_THAT(layers::LightningDecays(4, 2, 3).front(), FloatEq(static_cast<float>(-0.25 * last)));
}

RopeConfig FourDims(RopeScaling scaling) {
  RopeConfig rope;
  rope.theta = 100.0f;
  rope.rotary_dims = 4;
  rope.scaling = scaling;
  rope.factor = 4.0f;
  rope.original_context = 32;
  return rope;
}

TEST(Rope, PlainAndLinear) {
  EXPECT_THAT(ComputeRopeFrequencies(FourDims(RopeScaling::kNone), 32, 32).inverse,
              ElementsAre(1.0, DoubleNear(0.1, 1e-12)));
  EXPECT_THAT(ComputeRopeFrequencies(FourDims(RopeScaling::kLinear), 128, 128).inverse,
              ElementsAre(0.25, DoubleNear(0.025, 1e-12)));
}

TEST(Rope, ProportionalTurnsSomePairsAndSlowsThemByTheFactor) {
  RopeConfig rope = FourDims(RopeScaling::kProportional);
  rope.portion = 0.5f;
  EXPECT_THAT(ComputeRopeFrequencies(rope, 32, 32).inverse, ElementsAre(0.25, 0.0));
  rope.portion = 1.0f;
  EXPECT_THAT(ComputeRopeFrequencies(rope, 32, 32).inverse,
              ElementsAre(0.25, DoubleNear(0.025, 1e-12)));
}

TEST(Rope, FrequencyFactorsDivide) {
  RopeConfig rope = FourDims(RopeScaling::kNone);
  rope.frequency_factors = {1.0f, 8.0f};
  EXPECT_THAT(ComputeRopeFrequencies(rope, 32, 32).inverse,
              ElementsAre(1.0, DoubleNear(0.0125, 1e-12)));
}

TEST(Rope, DynamicNtkIsPlainWithinTheOriginalContextAndFixedByTheLongestBeyond) {
  const RopeConfig rope = FourDims(RopeScaling::kDynamicNtk);
  EXPECT_THAT(ComputeRopeFrequencies(rope, 128, 32).inverse,
              ElementsAre(1.0, DoubleNear(0.1, 1e-12)));
  // theta' = 100 * (4 * 64 / 32 - 3)^(4 / 2) = 2500
  EXPECT_THAT(ComputeRopeFrequencies(rope, 128, 64).inverse,
              ElementsAre(1.0, DoubleNear(0.02, 1e-12)));
}

TEST(Rope, LongRopePicksItsFactorsByTheLongestSequence) {
  RopeConfig rope = FourDims(RopeScaling::kLongRope);
  rope.short_factor = {1.0f, 2.0f};
  rope.long_factor = {1.0f, 5.0f};
  const double scale = std::sqrt(1.0 + std::log(4.0) / std::log(32.0));
  const auto within = ComputeRopeFrequencies(rope, 128, 32);
  EXPECT_THAT(within.inverse, ElementsAre(1.0, DoubleNear(0.05, 1e-12)));
  EXPECT_NEAR(within.scale, scale, 1e-12);
  const auto beyond = ComputeRopeFrequencies(rope, 128, 33);
  EXPECT_THAT(beyond.inverse, ElementsAre(1.0, DoubleNear(0.02, 1e-12)));
  EXPECT_NEAR(beyond.scale, scale, 1e-12);
  rope.factor = 1.0f;  // the file gives none: the ratio of the contexts
  EXPECT_NEAR(ComputeRopeFrequencies(rope, 128, 32).scale, scale, 1e-12);
  rope.attention_factor = 1.5f;
  EXPECT_EQ(ComputeRopeFrequencies(rope, 128, 32).scale, 1.5);
}

// The last pair still turns within the original context: the ramp ends past the last pair, at the
// number of dimensions less one.
TEST(Rope, YarnsRampMayEndPastTheLastPair) {
  RopeConfig rope = FourDims(RopeScaling::kYarn);
  rope.theta = 10.0f;
  rope.original_context = 64;
  // A third of the way from 1 / sqrt(10) to a quarter of it.
  EXPECT_THAT(ComputeRopeFrequencies(rope, 256, 256).inverse,
              ElementsAre(1.0, DoubleNear(0.75 / std::sqrt(10.0), 1e-7)));
}

TEST(Rope, YarnScalesCosAndSinByItsMagnitude) {
  RopeConfig rope = FourDims(RopeScaling::kYarn);
  EXPECT_NEAR(ComputeRopeFrequencies(rope, 128, 128).scale, 0.1 * std::log(4.0) + 1.0, 1e-12);
  rope.mscale = rope.mscale_all_dim = 0.7f;
  EXPECT_NEAR(ComputeRopeFrequencies(rope, 128, 128).scale, 1.0, 1e-12);
  rope.attention_factor = 0.5f;
  EXPECT_EQ(ComputeRopeFrequencies(rope, 128, 128).scale, 0.5);
}

bool Overlap(const ops::Tensor& a, const ops::Tensor& b) {
  const auto end = [](const ops::Tensor& t) {
    return t.data + RowBytes(t.dtype, static_cast<size_t>(t.size()));
  };
  return a.data < end(b) && b.data < end(a);
}

class ActivationsOf : public ::testing::TestWithParam<DType> {};

void ExpectApart(const std::vector<const ops::Tensor*>& group) {
  for (size_t i = 0; i < group.size(); ++i) {
    for (size_t j = 0; j < i; ++j) EXPECT_FALSE(Overlap(*group[i], *group[j])) << i << " " << j;
  }
}

TEST_P(ActivationsOf, LiveRegionsOfGatesAndStatesLieInTheWorkspaceAndApart) {
  const ModelConfig config = SmallQwen3Next();
  ModelOptions options;
  options.activation = GetParam();
  options.max_tokens = options.max_logits_rows = 5;
  std::vector<std::byte> memory(layers::Activations::Bytes(config, options));
  const device::View view{memory.data(), memory.size(), device::MemoryKind::kHost, {}};
  const auto a = layers::Activations::Slice(view, config, options, 5, 5);
  for (const ops::Tensor* t : {&a.qkv_gate, &a.attended, &a.linear_in, &a.convolved, &a.recalled}) {
    EXPECT_LE(t->data + RowBytes(t->dtype, static_cast<size_t>(t->size())),
              memory.data() + memory.size());
  }
  ExpectApart({&a.hidden, &a.normed, &a.qkv_gate, &a.q, &a.attended});
  ExpectApart({&a.hidden, &a.normed, &a.linear_in, &a.convolved, &a.recalled});
  EXPECT_EQ(a.qkv_gate.dims[1], 4 * 16 + 2 * 2 * 16 + 4 * 16);
  EXPECT_EQ(a.attention_gate.dims[1], 4 * 16);
  EXPECT_EQ(a.attention_gate.strides[0], a.qkv_gate.dims[1]);
  EXPECT_EQ(a.linear_in.dims[1], 46 + 30 + 12);
  EXPECT_EQ(a.linear_ba.dims[1], 12);
  EXPECT_EQ(a.linear_ba.data, a.linear_in.data + 76 * Info(GetParam()).bytes);
}

TEST_P(ActivationsOf, OfMambaTheGateLiesFirstAndStepSizesLast) {
  const ModelConfig config = SmallMamba2();
  ModelOptions options;
  options.activation = GetParam();
  options.max_tokens = options.max_logits_rows = 5;
  std::vector<std::byte> memory(layers::Activations::Bytes(config, options));
  const device::View view{memory.data(), memory.size(), device::MemoryKind::kHost, {}};
  const auto a = layers::Activations::Slice(view, config, options, 5, 5);
  EXPECT_LE(a.recalled.data + RowBytes(GetParam(), static_cast<size_t>(a.recalled.size())),
            memory.data() + memory.size());
  ExpectApart({&a.hidden, &a.normed, &a.branch, &a.linear_in, &a.convolved, &a.recalled});
  EXPECT_EQ(a.linear_in.dims[1], 30 + 46 + 6);
  EXPECT_EQ(a.linear_gate.data, a.linear_in.data);
  EXPECT_EQ(a.linear_qkv.data, a.linear_in.data + 30 * Info(GetParam()).bytes);
  EXPECT_EQ(a.linear_ba.data, a.linear_in.data + 76 * Info(GetParam()).bytes);
  EXPECT_EQ(a.linear_ba.dims[1], 6);
}

TEST_P(ActivationsOf, GatesAndWhatIsConvolvedBetweenThemLieApart) {
  const ModelConfig config = SmallLfm2();
  ModelOptions options;
  options.activation = GetParam();
  options.max_tokens = options.max_logits_rows = 5;
  std::vector<std::byte> memory(layers::Activations::Bytes(config, options));
  const device::View view{memory.data(), memory.size(), device::MemoryKind::kHost, {}};
  const auto a = layers::Activations::Slice(view, config, options, 5, 5);
  EXPECT_LE(a.convolved.data + RowBytes(GetParam(), static_cast<size_t>(a.convolved.size())),
            memory.data() + memory.size());
  ExpectApart({&a.hidden, &a.normed, &a.branch, &a.linear_in, &a.convolved});
  EXPECT_EQ(a.linear_in.dims[1], 3 * 64);
  EXPECT_EQ(a.convolved.dims[1], 64);
}

TEST_P(ActivationsOf, LiveRegionsLieInTheWorkspaceAndApart) {
  ModelConfig config = SmallConfig(Architecture::kLlama);
  ModelOptions options;
  options.activation = GetParam();
  options.max_tokens = 5;
  options.max_logits_rows = 9;  // more rows than tokens
  std::vector<std::byte> memory(layers::Activations::Bytes(config, options));
  const device::View view{memory.data(), memory.size(), device::MemoryKind::kHost, {}};
  const auto a = layers::Activations::Slice(view, config, options, 5, 9);
  for (const ops::Tensor* t : {&a.hidden, &a.normed, &a.branch, &a.qkv, &a.q, &a.attended,
                               &a.gate_up, &a.gated, &a.last, &a.last_normed}) {
    EXPECT_GE(t->data, memory.data());
    EXPECT_LE(t->data + RowBytes(t->dtype, static_cast<size_t>(t->size())),
              memory.data() + memory.size());
  }
  // What is read and written by one op, or survives a block.
  const std::vector<std::vector<const ops::Tensor*>> apart = {
      {&a.hidden, &a.normed, &a.branch, &a.qkv, &a.q},
      {&a.hidden, &a.normed, &a.branch, &a.attended, &a.q},
      {&a.hidden, &a.normed, &a.branch, &a.gate_up, &a.gated},
      {&a.hidden, &a.normed, &a.last, &a.last_normed}};
  for (const auto& group : apart) ExpectApart(group);
  EXPECT_EQ(a.hidden.dtype, ops::ResidualDType(GetParam()));
  EXPECT_EQ(a.last.dtype, a.hidden.dtype);
  EXPECT_EQ(a.normed.dtype, GetParam());
}

TEST_P(ActivationsOf, LiveRegionsOfExpertsLieInTheWorkspaceAndApart) {
  ModelConfig config = SmallConfig(Architecture::kQwen3Moe);
  config.layers[3].experts = true;
  config.experts = {.count = 9, .per_token = 3, .width = 40};
  ModelOptions options;
  options.activation = GetParam();
  options.max_tokens = 7;
  options.max_logits_rows = 1;
  std::vector<std::byte> memory(layers::Activations::Bytes(config, options));
  const device::View view{memory.data(), memory.size(), device::MemoryKind::kHost, {}};
  const auto a = layers::Activations::Slice(view, config, options, 5, 0);
  const std::vector<const ops::Tensor*> routed = {
      &a.hidden,         &a.normed,        &a.router_logits, &a.expert_ids,  &a.expert_places,
      &a.expert_weights, &a.expert_starts, &a.expert_tokens, &a.expert_gated};
  for (const ops::Tensor* inner : {&a.expert_gate_up, &a.expert_out}) {
    std::vector<const ops::Tensor*> live = routed;
    live.push_back(inner);
    ExpectApart(live);
    for (const ops::Tensor* t : live) {
      EXPECT_LE(t->data + RowBytes(t->dtype, static_cast<size_t>(t->size())),
                memory.data() + memory.size());
    }
  }
  EXPECT_EQ(a.expert_tokens.size(), 15);
  EXPECT_EQ(a.expert_starts.size(), 10);
  EXPECT_EQ(a.expert_out.dtype, DType::kF32);
  EXPECT_EQ(a.expert_gated.dtype, GetParam());
  // The expert that every token takes, wider than the dense feed-forward part.
  config.experts.shared_width = config.intermediate_size + 24;
  config.experts.shared_gate = true;
  std::vector<std::byte> more(layers::Activations::Bytes(config, options));
  const auto shared = layers::Activations::Slice(
      {more.data(), more.size(), device::MemoryKind::kHost, {}}, config, options, 5, 0);
  ExpectApart({&shared.hidden, &shared.normed, &shared.branch, &shared.gate_up, &shared.gated,
               &shared.shared_gate});
  EXPECT_EQ(shared.gated.dims[1], config.intermediate_size + 24);
  EXPECT_EQ(shared.shared_gate.dtype, DType::kF32);
  // The memory plan counts them.
  ModelConfig dense = config;
  dense.experts = {};
  EXPECT_GT(WorkspaceBytes(config, options), WorkspaceBytes(dense, options));
}

INSTANTIATE_TEST_SUITE_P(Types, ActivationsOf,
                         ::testing::Values(DType::kF32, DType::kBF16, DType::kF16),
                         [](const auto& one) { return std::string(Name(one.param)); });

class ParamsOf : public ::testing::TestWithParam<files::ArchitectureInfo> {};

TEST_P(ParamsOf, NamesAreUniqueAndRowsAddUpInBothSpellings) {
  ModelConfig config = SmallConfig(GetParam().architecture);
  config.qk_norm = files::QkNormKind::kHead;
  config.attention_bias = config.attention_output_bias = config.mlp_bias = true;
  const bool encoder = GetParam().encoder;
  if (encoder) {
    config.pooling.emplace();
    config.plain_mlp = GetParam().plain_mlp;
    config.position_rows = GetParam().layers == files::LayerRule::kNoRope ? 40 : 0;
    config.token_types = GetParam().token_types ? 2 : 0;
  }
  std::set<std::string> names;
  for (const weights::ParamSpec& spec : Params(config)) {
    EXPECT_TRUE(names.insert(spec.name).second) << spec.name;
    const bool in_gguf = !GetParam().gguf_name.empty();
    EXPECT_EQ(spec.gguf.empty(), !in_gguf) << spec.name;
    for (const auto& alternatives : {spec.hugging_face, in_gguf ? spec.gguf : spec.hugging_face}) {
      ASSERT_FALSE(alternatives.empty()) << spec.name;
      for (const weights::SourceList& list : alternatives) {
        int64_t rows = 0;
        for (const weights::ParamSource& source : list) rows += source.rows;
        EXPECT_EQ(rows, spec.rows) << spec.name;
      }
    }
  }
  for (const char* name : {"embedding", "final_norm", "layers.5.attention.qkv",
                           "layers.5.attention.qkv_bias", "layers.5.attention.output_bias"}) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
  for (const char* name : {"output", "layers.0.attention.q_norm"})
    EXPECT_EQ(names.contains(name), !encoder) << name;
  EXPECT_EQ(names.contains("layers.0.mlp.gate_up_bias"), !config.plain_mlp);
  EXPECT_EQ(names.contains("layers.0.mlp.up_bias"), config.plain_mlp);
  EXPECT_EQ(names.contains("position_embedding"), config.position_rows > 0);
  EXPECT_EQ(names.contains("type_embedding"), config.token_types > 0);
}

TEST(PoolingParams, WhatStandsBehindAPoolingHasItsParameters) {
  ModelConfig config = SmallConfig(files::Architecture::kQwen3);
  config.tied_embeddings = true;
  config.pooling.emplace().answer = {.no = 3, .yes = 5};
  config.labels = {"no", "yes"};
  std::vector<weights::ParamSpec> specs = Params(config);
  const weights::ParamSpec& answer = specs.back();
  EXPECT_EQ(answer.name, "head.labels");
  EXPECT_EQ(answer.rows, 2);
  const weights::SourceList& rows = answer.hugging_face.back();
  EXPECT_EQ(rows[0].name, "model.embed_tokens.weight");
  EXPECT_EQ(rows[0].pick.first, 3);
  EXPECT_EQ(rows[1].pick.first, 5);
  EXPECT_EQ(answer.gguf.front()[0].pick.first, 1);  // the file has yes first
  config.pooling.emplace().dense = {{"2_Dense", 64, 96, true, true},
                                    {"3_Dense", 96, 24, false, false}};
  config.labels.clear();
  specs = Params(config);
  std::set<std::string> names;
  for (const weights::ParamSpec& spec : specs) names.insert(spec.name);
  EXPECT_TRUE(names.contains("dense.0_bias"));
  EXPECT_FALSE(names.contains("dense.1_bias") || names.contains("head.labels"));
  EXPECT_EQ(specs.back().hugging_face.front().front().name, "3_Dense/linear.weight");
}

INSTANTIATE_TEST_SUITE_P(All, ParamsOf,
                         ::testing::ValuesIn(files::Architectures().begin(),
                                             files::Architectures().end()),
                         [](const auto& test) { return std::string(test.param.name); });

const weights::ParamSpec& Find(const std::vector<weights::ParamSpec>& specs,
                               std::string_view name) {
  for (const weights::ParamSpec& spec : specs) {
    if (spec.name == name) return spec;
  }
  ADD_FAILURE() << name;
  return specs.front();
}

TEST(Params, GemmaMayStandInsideAMultimodalCheckpoint) {
  const auto specs = Params(SmallConfig(Architecture::kGemma3));
  const auto& qkv = Find(specs, "layers.2.attention.qkv");
  ASSERT_EQ(qkv.hugging_face.size(), 3u);
  EXPECT_EQ(qkv.hugging_face[0][0].name, "model.layers.2.self_attn.q_proj.weight");
  EXPECT_EQ(qkv.hugging_face[1][0].name, "language_model.model.layers.2.self_attn.q_proj.weight");
  EXPECT_EQ(qkv.hugging_face[2][0].name, "model.language_model.layers.2.self_attn.q_proj.weight");
  EXPECT_TRUE(Find(specs, "layers.2.mlp_norm").hugging_face_adds_one);
  EXPECT_FALSE(qkv.hugging_face_adds_one);
}

bool Declares(const std::vector<weights::ParamSpec>& specs, std::string_view name) {
  return std::any_of(specs.begin(), specs.end(),
                     [&](const weights::ParamSpec& spec) { return spec.name == name; });
}

TEST(Params, LayerNormsHaveABiasAndRmsNormsNone) {
  const auto specs = Params(SmallConfig(Architecture::kStableLm));
  for (const char* name : {"layers.5.input_norm_bias", "layers.5.mlp_norm_bias"}) {
    EXPECT_EQ(Find(specs, name).rows, 64) << name;
  }
  EXPECT_EQ(Find(specs, "layers.5.input_norm_bias").hugging_face[0][0].name,
            "model.layers.5.input_layernorm.bias");
  EXPECT_EQ(Find(specs, "final_norm_bias").hugging_face[0][0].name, "model.norm.bias");
  const auto others = Params(SmallConfig(Architecture::kLlama));
  EXPECT_FALSE(Declares(others, "layers.5.input_norm_bias") || Declares(others, "final_norm_bias"));
}

TEST(Params, BlocksInParallelShareTheNormBeforeTheFirst) {
  ModelConfig config = SmallConfig(Architecture::kStableLm);
  EXPECT_TRUE(Declares(Params(config), "layers.5.mlp_norm"));
  config.parallel_residual = true;
  EXPECT_FALSE(Declares(Params(config), "layers.5.mlp_norm"));
  EXPECT_TRUE(Find(Params(config), "layers.5.attention.output").residual);
}

TEST(Params, BlocksInParallelMayHaveANormEach) {
  ModelConfig config = SmallConfig(Architecture::kGptNeoX);
  config.parallel_residual = config.parallel_norms = true;
  auto specs = Params(config);
  EXPECT_EQ(Find(specs, "layers.5.mlp_norm").hugging_face[0][0].name,
            "gpt_neox.layers.5.post_attention_layernorm.weight");
  EXPECT_FALSE(Find(specs, "layers.5.attention.output").residual);
  EXPECT_TRUE(Find(specs, "layers.5.mlp.down").residual);
  config.architecture = Architecture::kFalcon;
  specs = Params(config);
  EXPECT_EQ(Find(specs, "layers.5.input_norm").hugging_face[0][0].name,
            "transformer.h.5.ln_attn.weight");
  // GGUF has them the other way round.
  EXPECT_EQ(Find(specs, "layers.5.input_norm").gguf[0][0].name, "blk.5.attn_norm_2.weight");
  EXPECT_EQ(Find(specs, "layers.5.mlp_norm").gguf[0][0].name, "blk.5.attn_norm.weight");
}

TEST(Params, RowsByKvHeadAreSortedInHuggingFaceAlone) {
  ModelConfig config = SmallConfig(Architecture::kFalcon);
  config.attention_bias = true;
  const auto specs = Params(config);
  for (const char* name : {"layers.0.attention.qkv", "layers.0.attention.qkv_bias"}) {
    const auto& qkv = Find(specs, name);
    ASSERT_EQ(qkv.hugging_face[0].size(), 3u) << name;
    const int64_t shared = config.num_heads / config.num_kv_heads;
    EXPECT_EQ(qkv.hugging_face[0][1].pick.begin, shared * config.head_dim) << name;
    EXPECT_EQ(qkv.hugging_face[0][2].tensor_rows(), qkv.rows) << name;
    ASSERT_EQ(qkv.gguf[0].size(), 1u) << name;
    EXPECT_EQ(qkv.gguf[0][0].rows, qkv.rows) << name;
  }
  const auto columns = Params(SmallConfig(Architecture::kGpt2));
  EXPECT_EQ(Find(columns, "layers.0.attention.qkv").hugging_face[0][0].transposed.group_rows,
            config.hidden_size);
}

// Where a norm stands after a block the product can't add to the residual stream by itself.
TEST(Params, ProductsBeforeANormAddNothing) {
  for (const char* name : {"layers.5.attention.output", "layers.5.mlp.down"}) {
    EXPECT_FALSE(Find(Params(SmallConfig(Architecture::kGemma2)), name).residual) << name;
    EXPECT_TRUE(Find(Params(SmallConfig(Architecture::kLlama)), name).residual) << name;
  }
}

TEST(Params, NormsBehindBlocksAloneTakeTheirNames) {
  const auto specs = Params(SmallConfig(Architecture::kOlmo2));
  EXPECT_FALSE(Declares(specs, "layers.5.input_norm") || Declares(specs, "layers.5.mlp_norm"));
  EXPECT_EQ(Find(specs, "layers.5.attention_post_norm").hugging_face[0][0].name,
            "model.layers.5.post_attention_layernorm.weight");
  EXPECT_FALSE(Find(specs, "layers.5.mlp.down").residual);
}

TEST(Params, LogitsAreScaledByTheFinalNormAndMayHaveABias) {
  ModelConfig config = SmallConfig(Architecture::kPhi2);
  config.plain_mlp = config.logits_bias = true;
  config.logit_scale = 0.5f;
  const auto specs = Params(config);
  EXPECT_EQ(Find(specs, "final_norm").factor, 0.5f);
  EXPECT_EQ(Find(specs, "final_norm_bias").factor, 0.5f);
  EXPECT_EQ(Find(specs, "final_norm").hugging_face[0][0].name, "model.final_layernorm.weight");
  EXPECT_TRUE(Find(specs, "output").bias);
  EXPECT_EQ(Find(specs, "output_bias").hugging_face[0][0].name, "lm_head.bias");
  EXPECT_EQ(Find(specs, "layers.5.mlp.up").hugging_face[0][0].name,
            "model.layers.5.mlp.fc1.weight");
  EXPECT_FALSE(Declares(specs, "layers.5.mlp.gate_up"));
}

TEST(Params, Mamba2HasMixersAlone) {
  const auto specs = Params(SmallMamba2());
  const auto& in = Find(specs, "layers.0.mamba.in");
  EXPECT_EQ(in.rows, 30 + 46 + 6);
  EXPECT_FALSE(in.bias);
  EXPECT_EQ(in.hugging_face[0][0].name, "backbone.layers.0.mixer.in_proj.weight");
  EXPECT_EQ(in.gguf[0][0].name, "blk.0.ssm_in.weight");
  EXPECT_EQ(Find(specs, "layers.0.mamba.taps").columns, 3);
  EXPECT_EQ(Find(specs, "layers.0.mamba.taps_bias").gguf[0][0].name, "blk.0.ssm_conv1d.bias");
  EXPECT_TRUE(Find(specs, "layers.0.mamba.a").hugging_face_log);
  EXPECT_EQ(Find(specs, "layers.0.mamba.a").gguf[0][0].name, "blk.0.ssm_a");
  EXPECT_EQ(Find(specs, "layers.0.mamba.norm").rows, 30);
  EXPECT_TRUE(Find(specs, "layers.5.mamba.output").residual);
  EXPECT_EQ(Find(specs, "layers.5.input_norm").hugging_face[0][0].name,
            "backbone.layers.5.norm.weight");
  EXPECT_FALSE(Declares(specs, "layers.0.mlp_norm"));
  EXPECT_FALSE(Declares(specs, "layers.0.mlp.down"));
  EXPECT_EQ(Find(specs, "embedding").hugging_face[0][0].name, "backbone.embeddings.weight");
  EXPECT_EQ(Find(specs, "final_norm").hugging_face[0][0].name, "backbone.norm_f.weight");
}

TEST(Params, ALayerThatReadsTheKvOfAnotherHasQAlone) {
  ModelConfig config = SmallConfig(Architecture::kGemma4);
  config.qk_norm = files::QkNormKind::kHead;
  config.layers[5].kv_of = 4;
  config.layers[5].mlp_width = 2 * config.intermediate_size;
  config.layer_inputs = {.width = 7, .rows = 40};
  const auto specs = Params(config);
  const auto &own = Find(specs, "layers.4.attention.qkv"),
             &of = Find(specs, "layers.5.attention.qkv");
  EXPECT_EQ(own.hugging_face[0].size(), 3u);
  EXPECT_EQ(of.hugging_face[0].size(), 1u);
  EXPECT_EQ(of.rows, config.num_heads * config.head_dim);
  EXPECT_TRUE(Declares(specs, "layers.5.attention.q_norm"));
  EXPECT_FALSE(Declares(specs, "layers.5.attention.k_norm"));
  EXPECT_EQ(Find(specs, "layers.4.mlp.down").columns, config.intermediate_size);
  EXPECT_EQ(Find(specs, "layers.5.mlp.down").columns, 2 * config.intermediate_size);
  EXPECT_EQ(Find(specs, "layer_inputs.embedding").rows, 40);
  EXPECT_EQ(Find(specs, "layer_inputs.embedding").columns, 6 * 7);
  EXPECT_EQ(Find(specs, "layers.5.layer_input.gate").rows, 7);
  EXPECT_EQ(Find(specs, "layers.5.layer_input.output").columns, 7);
  // The memory of a group is that of the layers that own some of it.
  ModelOptions options;
  size_t layers = 0;
  for (const batch::KvGroup& group : LayerGroups(config, options)) layers += group.layers.size();
  EXPECT_EQ(layers, 5u);
}

TEST(Params, MambaMakesStepsByWayOfALatent) {
  ModelConfig config = SmallConfig(Architecture::kMamba);
  config.linear = {.key_heads = 1,
                   .value_heads = 1,
                   .key_head_dim = 4,
                   .value_head_dim = 30,
                   .conv_kernel = 3,
                   .mamba = true,
                   .step_rank = 5};
  files::MakeMambaAlone(&config);
  const auto specs = Params(config);
  EXPECT_EQ(Find(specs, "layers.0.mamba.in").rows, 2 * 30);
  EXPECT_EQ(Find(specs, "layers.0.mamba.taps").rows, 30);
  EXPECT_EQ(Find(specs, "layers.0.mamba.scan_in").rows, 5 + 2 * 4);
  EXPECT_EQ(Find(specs, "layers.0.mamba.scan_in").columns, 30);
  EXPECT_EQ(Find(specs, "layers.0.mamba.scan_in").gguf[0][0].name, "blk.0.ssm_x.weight");
  EXPECT_EQ(Find(specs, "layers.0.mamba.steps").columns, 5);
  EXPECT_EQ(Find(specs, "layers.0.mamba.dt_bias").hugging_face[0][0].name,
            "backbone.layers.0.mixer.dt_proj.bias");
  EXPECT_EQ(Find(specs, "layers.0.mamba.dt_bias").gguf[0][0].name, "blk.0.ssm_dt.bias");
  EXPECT_EQ(Find(specs, "layers.0.mamba.a").columns, 4);
  EXPECT_TRUE(Find(specs, "layers.0.mamba.a").hugging_face_log);
  EXPECT_FALSE(Declares(specs, "layers.0.mamba.step_norm"));
  EXPECT_FALSE(Declares(specs, "layers.0.mamba.norm"));
  config.linear.scan_norms = files::ScanNorms::kPlain;
  EXPECT_FALSE(Declares(Params(config), "layers.0.mamba.step_norm"));
  config.linear.scan_norms = files::ScanNorms::kWeighted;
  EXPECT_EQ(Find(Params(config), "layers.0.mamba.b_norm").gguf[0][0].name,
            "blk.0.ssm_b_norm.weight");
  ModelOptions options;
  const std::vector<batch::KvGroup> groups = LayerGroups(config, options);
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0].k_head_dim, 4 * 30);
  EXPECT_EQ(groups[0].v_head_dim, 2 * 30);
}

TEST(Params, LayersSideBySideAreOneOfTheCheckpoint) {
  ModelConfig config = SmallConfig(Architecture::kFalconH1);
  config.linear = SmallMamba2().linear;
  config.linear.gated_norm = false;
  config.linear.scales = {.values = 2.0f, .keys = 3.0f, .queries = 5.0f};
  files::MakeMambaBeside(&config);
  const auto specs = Params(config);
  EXPECT_EQ(Find(specs, "layers.2.input_norm").hugging_face[0][0].name,
            "model.layers.1.input_layernorm.weight");
  const auto& in = Find(specs, "layers.2.mamba.in");
  EXPECT_EQ(in.hugging_face[0][0].name, "model.layers.1.mamba.in_proj.weight");
  EXPECT_EQ(in.gguf[0][0].name, "blk.1.ssm_in.weight");
  EXPECT_FALSE(Declares(specs, "layers.2.mlp.down"));
  EXPECT_FALSE(Declares(specs, "layers.2.mamba.norm"));
  EXPECT_FALSE(Declares(specs, "layers.3.input_norm"));
  EXPECT_EQ(Find(specs, "layers.3.attention.output").gguf[0][0].name, "blk.1.attn_output.weight");
  EXPECT_EQ(Find(specs, "layers.3.mlp_norm").gguf[0][0].name, "blk.1.ffn_norm.weight");
  EXPECT_EQ(Find(specs, "layers.3.mlp.down").hugging_face[0][0].name,
            "model.layers.1.feed_forward.down_proj.weight");
  // Values, keys, queries.
  const std::vector<float>& factors = Find(specs, "layers.2.mamba.taps").row_factors;
  ASSERT_EQ(factors.size(), 46u);
  EXPECT_EQ(factors[29], 2.0f);
  EXPECT_EQ(factors[30], 3.0f);
  EXPECT_EQ(factors[37], 3.0f);
  EXPECT_EQ(factors[38], 5.0f);
}

TEST(Params, AFeedForwardPartMayBeALayerOfTheCheckpoint) {
  ModelConfig config = SmallConfig(Architecture::kNemotronH);
  config.plain_mlp = true;
  config.experts = {.count = 2, .per_token = 1, .width = 40, .bias = true, .shared_width = 56};
  for (int i = 0; i < config.num_layers; ++i) {
    config.layers[i].stored = 2 * i;
    config.layers[i].stored_mlp = 2 * i + 1;
  }
  config.layers[1].experts = true;
  const auto specs = Params(config);
  EXPECT_EQ(Find(specs, "layers.1.input_norm").hugging_face[0][0].name,
            "backbone.layers.2.norm.weight");
  EXPECT_EQ(Find(specs, "layers.1.attention.output").hugging_face[0][0].name,
            "backbone.layers.2.mixer.o_proj.weight");
  EXPECT_EQ(Find(specs, "layers.1.mlp_norm").hugging_face[0][0].name,
            "backbone.layers.3.norm.weight");
  EXPECT_EQ(Find(specs, "layers.0.mlp.up").hugging_face[0][0].name,
            "backbone.layers.1.mixer.up_proj.weight");
  const auto& up = Find(specs, "layers.1.experts.up");
  EXPECT_EQ(up.rows, 2 * 40);
  ASSERT_EQ(up.hugging_face[0].size(), 2u);
  EXPECT_EQ(up.hugging_face[0][1].name, "backbone.layers.3.mixer.experts.1.up_proj.weight");
  EXPECT_FALSE(Declares(specs, "layers.1.experts.gate_up"));
  EXPECT_EQ(Find(specs, "layers.1.shared.up").hugging_face[0][0].name,
            "backbone.layers.3.mixer.shared_experts.up_proj.weight");
}

TEST(Params, MiniMaxAddsToItsNormsAndSortsTheRowsOfItsHeads) {
  const auto specs = Params(SmallMiniMax());
  const auto& in = Find(specs, "layers.0.lightning.in");
  EXPECT_EQ(in.rows, 4 * 64);
  ASSERT_EQ(in.hugging_face[0].size(), 4u);
  EXPECT_EQ(in.hugging_face[0][0].name, "model.layers.0.self_attn.qkv_proj.weight");
  EXPECT_EQ(in.hugging_face[0][0].pick.begin, 32);  // values, which a head has last
  EXPECT_EQ(in.hugging_face[0][2].pick.begin, 0);
  EXPECT_EQ(in.hugging_face[0][3].name, "model.layers.0.self_attn.output_gate.weight");
  const auto& kept = Find(specs, "layers.0.input_norm_kept");
  EXPECT_EQ(kept.hugging_face[0][0].name,
            Find(specs, "layers.0.input_norm").hugging_face[0][0].name);
  EXPECT_EQ(kept.factor, 3.5f);
  EXPECT_EQ(Find(specs, "layers.2.mlp_norm_kept").factor, 3.5f);
  EXPECT_TRUE(Declares(specs, "layers.2.attention.qkv"));
  EXPECT_FALSE(Declares(Params(SmallConfig(Architecture::kLlama)), "layers.0.input_norm_kept"));
}

TEST(Params, GateAndUpOfAGraniteAreApartInGgufAlone) {
  ModelConfig config = SmallConfig(Architecture::kGraniteMoeHybrid);
  EXPECT_EQ(Find(Params(config), "layers.0.mlp.gate_up").hugging_face[0][0].name,
            "model.layers.0.shared_mlp.input_linear.weight");
  EXPECT_EQ(Find(Params(config), "layers.0.mlp.gate_up").gguf[0][1].name, "blk.0.ffn_up.weight");
  config.experts = {.count = 4, .per_token = 2, .width = 32, .shared_width = 40};
  for (files::LayerConfig& layer : config.layers) layer.experts = true;
  const auto shared = Find(Params(config), "layers.0.shared.gate_up");
  EXPECT_EQ(shared.hugging_face[0].size(), 1u);
  EXPECT_EQ(shared.gguf[0][0].name, "blk.0.ffn_gate_shexp.weight");
}

TEST(Params, Lfm2HasAConvolutionInsteadOfAttention) {
  const auto specs = Params(SmallLfm2());
  const auto& in = Find(specs, "layers.0.conv.in");
  EXPECT_EQ(in.rows, 3 * 64);
  EXPECT_TRUE(in.bias);
  EXPECT_EQ(in.hugging_face[0][0].name, "model.layers.0.conv.in_proj.weight");
  EXPECT_EQ(in.gguf[0][0].name, "blk.0.shortconv.in_proj.weight");
  EXPECT_EQ(Find(specs, "layers.0.conv.taps").columns, 3);
  EXPECT_EQ(Find(specs, "layers.0.conv.taps").gguf[0][0].name, "blk.0.shortconv.conv.weight");
  EXPECT_EQ(Find(specs, "layers.0.conv.taps_bias").hugging_face[0][0].name,
            "model.layers.0.conv.conv.bias");
  EXPECT_TRUE(Find(specs, "layers.0.conv.output").residual);
  EXPECT_EQ(Find(specs, "layers.0.input_norm").hugging_face[0][0].name,
            "model.layers.0.operator_norm.weight");
  EXPECT_FALSE(Declares(specs, "layers.0.attention.qkv"));
  EXPECT_EQ(Find(specs, "layers.2.attention.q_norm").hugging_face[0][0].name,
            "model.layers.2.self_attn.q_layernorm.weight");
  EXPECT_EQ(Find(specs, "final_norm").gguf[0][0].name, "token_embd_norm.weight");
  EXPECT_EQ(Find(specs, "final_norm").hugging_face[0][0].name, "model.embedding_norm.weight");
}

TEST(Params, Qwen3NextSortsTheRowsOfItsHeads) {
  const auto specs = Params(SmallQwen3Next());
  const auto& in = Find(specs, "layers.0.linear.in");
  EXPECT_EQ(in.rows, 46 + 30 + 12);
  // Two key heads, each with rows of 4 queries, 4 keys, 15 values and 15 of the gate.
  std::vector<int64_t> begins, counts;
  for (const weights::ParamSource& source : in.hugging_face[0]) {
    begins.push_back(source.pick.begin);
    counts.push_back(source.pick.count);
    EXPECT_EQ(source.tensor_rows(), source.name.ends_with("in_proj_ba.weight") ? 12 : 76);
  }
  EXPECT_THAT(begins, ElementsAre(0, 4, 8, 23, 0, 3));
  EXPECT_THAT(counts, ElementsAre(4, 4, 15, 15, 3, 3));
  EXPECT_EQ(Find(specs, "layers.0.linear.conv").columns, 3);
  EXPECT_FALSE(Find(specs, "layers.0.linear.norm").hugging_face_adds_one);
  EXPECT_TRUE(Find(specs, "layers.0.input_norm").hugging_face_adds_one);
  const auto& qkv = Find(specs, "layers.2.attention.qkv");
  ASSERT_EQ(qkv.hugging_face[0].size(), 4u);
  EXPECT_EQ(qkv.rows, 4 * 16 + 2 * 2 * 16 + 4 * 16);
  EXPECT_EQ(qkv.hugging_face[0][3].name, qkv.hugging_face[0][0].name);
  EXPECT_EQ(qkv.hugging_face[0][0].pick.begin, 0);
  EXPECT_EQ(qkv.hugging_face[0][3].pick.begin, 16);
  EXPECT_TRUE(Find(specs, "layers.2.attention.q_norm").hugging_face_adds_one);
}

TEST(Params, ExpertsStandInOneParameterHoweverTheyAreStored) {
  ModelConfig config = SmallConfig(Architecture::kMixtral);
  config.layers[3].experts = true;
  config.experts = {.count = 2, .per_token = 1, .width = 40};
  const auto specs = Params(config);
  EXPECT_EQ(Find(specs, "layers.2.mlp.down").rows, 64);
  const auto& mixtral = Find(specs, "layers.3.experts.gate_up");
  EXPECT_EQ(mixtral.role, weights::ParamRole::kExperts);
  EXPECT_EQ(mixtral.rows, 2 * 80);
  EXPECT_EQ(mixtral.hugging_face[0][1].name, "model.layers.3.block_sparse_moe.experts.0.w3.weight");
  EXPECT_EQ(mixtral.hugging_face[0][2].name, "model.layers.3.block_sparse_moe.experts.1.w1.weight");
  config.architecture = Architecture::kQwen3Moe;
  const auto qwen = Params(config);
  const auto& down = Find(qwen, "layers.3.experts.down");
  EXPECT_EQ(down.columns, 40);
  EXPECT_EQ(down.hugging_face[0][1].name, "model.layers.3.mlp.experts.1.down_proj.weight");
  EXPECT_EQ(down.gguf[0][1].name, "blk.3.ffn_down_exps.weight");
  EXPECT_EQ(down.gguf[0][1].pick.begin, 64);
  EXPECT_TRUE(Find(qwen, "layers.3.experts.router").f32_out);
}

TEST(Params, ExpertsInOneTensorAndOneThatEveryTokenTakes) {
  ModelConfig config = SmallConfig(Architecture::kGraniteMoe);
  config.layers[3].experts = true;
  config.experts = {.count = 2, .per_token = 1, .width = 40, .shared_width = 56};
  const auto granite = Params(config);
  const auto& all = Find(granite, "layers.3.experts.gate_up");
  EXPECT_EQ(all.rows, 2 * 80);
  ASSERT_EQ(all.hugging_face[0].size(), 2u);
  EXPECT_EQ(all.hugging_face[0][1].name, "model.layers.3.block_sparse_moe.input_linear.weight");
  EXPECT_EQ(all.hugging_face[0][1].pick.begin, 80);
  EXPECT_EQ(Find(granite, "layers.3.shared.gate_up").hugging_face[0][0].name,
            "model.layers.3.shared_mlp.input_linear.weight");
  EXPECT_TRUE(Find(granite, "layers.3.shared.down").residual);
  EXPECT_FALSE(Declares(granite, "layers.3.shared.gate"));
  config.architecture = Architecture::kQwen2Moe;
  config.experts.shared_gate = true;
  const auto qwen = Params(config);
  EXPECT_FALSE(Find(qwen, "layers.3.shared.down").residual);
  EXPECT_EQ(Find(qwen, "layers.3.shared.gate").rows, 1);
  config.architecture = Architecture::kGlm4Moe;
  config.experts.bias = true;
  EXPECT_EQ(Find(Params(config), "layers.3.experts.score_bias").hugging_face[0][0].name,
            "model.layers.3.mlp.gate.e_score_correction_bias");
}

TEST(Params, SyntheticModelsHaveAllOfTheirTensorsAndNoOther) {
  for (const std::string name : {"llama-3.1-8b", "qwen3-8b", "qwen3-30b-a3b-6layers",
                                 "mixtral-8x7b", "smollm2-135m", "tiny"}) {
    const auto files = files::OpenModel(files::SyntheticPath(name, "fp8"));
    ASSERT_TRUE(files.ok()) << files.status().message();
    const auto params =
        weights::Resolve(Params(files->config), *files->tensors, weights::Naming::kHuggingFace);
    ASSERT_TRUE(params.ok()) << params.status().message();
    std::set<const files::FileTensor*> used;
    for (const weights::ResolvedParam& param : *params) {
      used.insert(param.tensors.begin(), param.tensors.end());
    }
    EXPECT_EQ(used.size(), files->tensors->tensors().size()) << name;
  }
}

TEST(Params, TiedOutputIsTheEmbedding) {
  ModelConfig config = SmallConfig(Architecture::kLlama);
  EXPECT_EQ(Find(Params(config), "output").hugging_face[0][0].name, "lm_head.weight");
  config.tied_embeddings = true;
  EXPECT_EQ(Find(Params(config), "output").hugging_face[0][0].name, "model.embed_tokens.weight");
}

}  // namespace
}  // namespace sluice::model
