#include "files/gguf_mamba.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "files/test_configs.h"

namespace sluice::files {
namespace {

using testing::ErrorOf;
using testing::GgufWriter;
using testing::Good;
using ::testing::HasSubstr;
using testing::kInt32;

// Four heads of `inner` / 4 in two groups, states of 24.
GgufWriter WithStates(GgufWriter file, const std::string& prefix, uint32_t inner = 128) {
  return file.U32(prefix + ".ssm.conv_kernel", 4)
      .U32(prefix + ".ssm.inner_size", inner)
      .U32(prefix + ".ssm.state_size", 24)
      .U32(prefix + ".ssm.time_step_rank", 4)
      .U32(prefix + ".ssm.group_count", 2);
}
GgufWriter Hybrid(const std::vector<int32_t>& kv_heads) {
  GgufWriter file = testing::TinyGguf("granitehybrid");
  std::erase_if(file.keys, [](const auto& key) { return key.name.ends_with("head_count_kv"); });
  return WithStates(file.Array("granitehybrid.attention.head_count_kv", kInt32, kv_heads),
                    "granitehybrid");
}

TEST(GgufMambaTest, Mamba2HasNeitherHeadsNorFeedForwardParts) {
  GgufWriter file = testing::TinyGguf("mamba2");
  // As llama.cpp's converter writes them.
  std::erase_if(file.keys, [](const auto& key) {
    return key.name.ends_with("head_count_kv") || key.name.ends_with("head_count") ||
           key.name.ends_with("feed_forward_length");
  });
  file.U32("mamba2.attention.head_count", 0).U32("mamba2.feed_forward_length", 0);
  const ModelConfig config = Good(WithStates(file, "mamba2"));
  EXPECT_EQ(config.architecture, Architecture::kMamba2);
  EXPECT_EQ(config.linear.key_heads, 2);
  EXPECT_EQ(config.linear.value_heads, 4);
  EXPECT_EQ(config.linear.key_head_dim, 24);
  EXPECT_EQ(config.linear.value_head_dim, 32);
  EXPECT_EQ(config.linear.conv_kernel, 4);
  EXPECT_TRUE(config.linear.mamba);
  EXPECT_FALSE(config.linear.conv_bias || config.linear.product_bias);
  EXPECT_EQ(config.intermediate_size, 0);
  for (const LayerConfig& layer : config.layers) {
    EXPECT_EQ(layer.kind, LayerKind::kMamba);
    EXPECT_FALSE(layer.mlp || layer.use_rope);
  }
  EXPECT_TRUE(Good(WithStates(file, "mamba2").Add("blk.1.ssm_conv1d.bias", DType::kF32, {32}))
                  .linear.conv_bias);
  EXPECT_THAT(ErrorOf(WithStates(file, "mamba2", 130)),
              HasSubstr("\"mamba2.ssm.inner_size\" is 130"));
  EXPECT_THAT(ErrorOf(file), HasSubstr("\"mamba2.ssm.conv_kernel\" is missing"));
}

TEST(GgufMambaTest, OfAHybridLayersWithoutKvHeadsHaveAState) {
  const ModelConfig config = Good(Hybrid({0, 2}));
  EXPECT_EQ(config.architecture, Architecture::kGraniteMoeHybrid);
  EXPECT_EQ(config.layers[0].kind, LayerKind::kMamba);
  EXPECT_EQ(config.layers[1].kind, LayerKind::kFull);
  EXPECT_EQ(config.num_kv_heads, 2);
  EXPECT_TRUE(config.layers[0].mlp);
  EXPECT_FALSE(config.layers[1].use_rope);
  EXPECT_TRUE(
      Good(Hybrid({0, 2}).Bool("granitehybrid.rope.scaling.finetuned", true)).layers[1].use_rope);
  EXPECT_THAT(ErrorOf(Hybrid({0, 2})
                          .Bool("granitehybrid.rope.scaling.finetuned", true)
                          .U32("granitehybrid.rope.dimension_count", 8)),
              HasSubstr("\"granitehybrid.rope.dimension_count\" is 8 of the 16"));
  EXPECT_EQ(Good(Hybrid({0, 2}).U32("granitehybrid.expert_shared_feed_forward_length", 40))
                .intermediate_size,
            40);
}

TEST(GgufMambaTest, OfFalconH1ALayerIsTwo) {
  const GgufWriter file = WithStates(testing::TinyGguf("falcon-h1"), "falcon-h1");
  const ModelConfig config = Good(file);
  EXPECT_EQ(config.architecture, Architecture::kFalconH1);
  EXPECT_EQ(config.num_layers, 2 * config.stored_layers());
  EXPECT_EQ(config.layers[0].kind, LayerKind::kMamba);
  EXPECT_EQ(config.layers[1].kind, LayerKind::kFull);
  EXPECT_TRUE(config.BesideLast(1) && !config.BesideLast(2));
  EXPECT_FALSE(config.linear.gated_norm);
  EXPECT_TRUE(
      Good(GgufWriter(file).Add("blk.0.ssm_norm.weight", DType::kF32, {64, 2})).linear.gated_norm);
  // The converter has multiplied the weights.
  EXPECT_TRUE(config.linear.scales.plain());
}

// 80 channels with states of 24 and a latent of 5.
GgufWriter WithScan(GgufWriter file, const std::string& prefix) {
  return file.U32(prefix + ".ssm.conv_kernel", 4)
      .U32(prefix + ".ssm.inner_size", 80)
      .U32(prefix + ".ssm.state_size", 24)
      .U32(prefix + ".ssm.time_step_rank", 5);
}

TEST(GgufMambaTest, OfMambaTheRankOfStepsIsNoNumberOfHeads) {
  const GgufWriter file = WithScan(testing::TinyGguf("mamba"), "mamba");
  const ModelConfig config = Good(file);
  EXPECT_EQ(config.architecture, Architecture::kMamba);
  EXPECT_EQ(config.linear.step_rank, 5);
  EXPECT_EQ(config.linear.value_width(), 80);
  EXPECT_EQ(config.linear.channels(), 80);
  EXPECT_EQ(config.linear.key_head_dim, 24);
  EXPECT_EQ(config.linear.scan_norms, ScanNorms::kNone);
  EXPECT_FALSE(config.layers[0].mlp);
  // Falcon Mamba.
  EXPECT_EQ(Good(GgufWriter(file).Bool("mamba.ssm.dt_b_c_rms", true)).linear.scan_norms,
            ScanNorms::kPlain);
  EXPECT_THAT(ErrorOf(testing::TinyGguf("mamba")
                          .U32("mamba.ssm.conv_kernel", 4)
                          .U32("mamba.ssm.state_size", 24)),
              HasSubstr("\"mamba.ssm.inner_size\" is missing"));
}

TEST(GgufMambaTest, OfJambaLayersWithoutKvHeadsHaveAStateAndWeightsOfExpertsStay) {
  GgufWriter file = testing::TinyGguf("jamba");
  std::erase_if(file.keys, [](const auto& key) { return key.name.ends_with("head_count_kv"); });
  file = WithScan(file.Array("jamba.attention.head_count_kv", kInt32, std::vector<int32_t>{0, 2}),
                  "jamba")
             .U32("jamba.expert_count", 4)
             .U32("jamba.expert_used_count", 2)
             .Add("blk.1.ffn_gate_inp.weight", DType::kF32, {4, 64});
  const ModelConfig config = Good(file);
  EXPECT_EQ(config.architecture, Architecture::kJamba);
  EXPECT_EQ(config.layers[0].kind, LayerKind::kMamba);
  EXPECT_EQ(config.layers[1].kind, LayerKind::kFull);
  EXPECT_FALSE(config.layers[1].use_rope);
  EXPECT_TRUE(config.layers[0].mlp && !config.layers[0].experts && config.layers[1].experts);
  EXPECT_EQ(config.linear.scan_norms, ScanNorms::kWeighted);
  EXPECT_FALSE(config.experts.renormalize);
}

// Two layers of the checkpoint: the first a mixer of Mamba-2 or with KV heads, the second what
// `widths` says.
GgufWriter Nemotron(const std::string& name, const std::vector<int32_t>& kv_heads,
                    const std::vector<int32_t>& widths) {
  GgufWriter file = testing::TinyGguf(name);
  std::erase_if(file.keys, [](const auto& key) {
    return key.name.ends_with("head_count_kv") || key.name.ends_with("feed_forward_length");
  });
  return WithStates(file.Array(name + ".attention.head_count_kv", kInt32, kv_heads)
                        .Array(name + ".feed_forward_length", kInt32, widths),
                    name);
}

TEST(GgufMambaTest, OfNemotronHAMixerAndWhatStandsBehindItAreALayer) {
  const ModelConfig config =
      Good(Nemotron("nemotron_h", {0, 0}, {0, 80}).Add("blk.1.ffn_up.bias", DType::kF32, {80}));
  EXPECT_EQ(config.architecture, Architecture::kNemotronH);
  ASSERT_EQ(config.num_layers, 1);
  EXPECT_EQ(config.stored_layers(), 2);
  EXPECT_EQ(config.layers[0].kind, LayerKind::kMamba);
  EXPECT_EQ(config.StoredMlp(0), 1);
  EXPECT_TRUE(config.layers[0].mlp && !config.layers[0].experts);
  EXPECT_EQ(config.intermediate_size, 80);
  EXPECT_TRUE(config.plain_mlp && config.mlp_bias && !config.attention_bias);
  const ModelConfig mixers = Good(Nemotron("nemotron_h", {0, 2}, {0, 0}));
  EXPECT_EQ(mixers.num_layers, 2);
  EXPECT_EQ(mixers.layers[1].kind, LayerKind::kFull);
  EXPECT_EQ(mixers.num_kv_heads, 2);
  EXPECT_FALSE(mixers.layers[0].mlp || mixers.layers[1].mlp || mixers.layers[1].use_rope);
  EXPECT_THAT(ErrorOf(Nemotron("nemotron_h", {0, 0}, {80, 0})),
              HasSubstr("layer 0 is a feed-forward part behind no mixer of its own"));
  EXPECT_THAT(ErrorOf(Nemotron("nemotron_h", {0}, {0, 0})), HasSubstr("an array of 2 integers"));
}

TEST(GgufMambaTest, NemotronHWithExpertsHasANameOfItsOwn) {
  const GgufWriter file = Nemotron("nemotron_h_moe", {2, 0}, {0, 40})
                              .U32("nemotron_h_moe.expert_count", 4)
                              .U32("nemotron_h_moe.expert_used_count", 2)
                              .U32("nemotron_h_moe.expert_feed_forward_length", 40)
                              .U32("nemotron_h_moe.expert_group_count", 2)
                              .U32("nemotron_h_moe.expert_group_used_count", 1)
                              .F32("nemotron_h_moe.expert_weights_scale", 1.5f)
                              .Add("blk.1.ffn_gate_inp.weight", DType::kF32, {4, 64})
                              .Add("blk.1.ffn_up_shexp.weight", DType::kF32, {24, 64});
  const ModelConfig config = Good(file);
  EXPECT_EQ(config.architecture, Architecture::kNemotronH);
  EXPECT_TRUE(config.layers[0].experts);
  EXPECT_EQ(config.experts.count, 4);
  EXPECT_EQ(config.experts.width, 40);
  EXPECT_EQ(config.experts.shared_width, 24);
  EXPECT_EQ(config.experts.groups, 2);
  EXPECT_EQ(config.experts.groups_kept, 1);
  EXPECT_EQ(config.experts.scale, 1.5f);
  EXPECT_EQ(config.experts.score, RouterScore::kSigmoid);
  EXPECT_TRUE(config.experts.bias && config.experts.renormalize);
  EXPECT_FALSE(
      Good(GgufWriter(file).Bool("nemotron_h_moe.expert_weights_norm", false)).experts.renormalize);
  EXPECT_THAT(ErrorOf(GgufWriter(file).U32("nemotron_h_moe.moe_latent_size", 16)),
              HasSubstr("\"nemotron_h_moe.moe_latent_size\" is 16, which is not supported"));
}

}  // namespace
}  // namespace sluice::files
