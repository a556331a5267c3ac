// What a model's layers keep: all that needs no device.
#include "model/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/layers/lightning_attention.h"
#include "model/test_model_configs.h"

namespace sluice::model {
namespace {

using files::Architecture;
using files::LayerKind;
using files::ModelConfig;
using ::testing::ElementsAre;
using ::testing::FloatEq;
using testing::SmallConfig;
using testing::SmallLfm2;
using testing::SmallMamba2;
using testing::SmallMiniMax;
using testing::SmallQwen3Next;

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

TEST(LayerGroups, LayersThatReuseChosenPositionsKeepNoKeysOfAnIndexer) {
  ModelConfig config = SmallConfig(Architecture::kGlmMoeDsa);
  config.num_kv_heads = 1;
  config.latent = {.kv_rank = 20, .q_rank = 8, .nope_dim = 8, .rope_dim = 4, .value_dim = 8};
  config.latent.indexer = {.heads = 2, .head_dim = 12, .top_k = 3};
  for (int i : {2, 3, 5}) config.layers[i].reuses_positions = true;
  const std::vector<batch::KvGroup> groups = LayerGroups(config, {});
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_THAT(groups[0].layers, ElementsAre(0, 1, 4));
  EXPECT_EQ(groups[0].v_head_dim, 12);
  EXPECT_THAT(groups[1].layers, ElementsAre(2, 3, 5));
  EXPECT_EQ(groups[1].k_head_dim, 24);
  EXPECT_EQ(groups[1].v_head_dim, 0);
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

}  // namespace
}  // namespace sluice::model
