// The parameters that models declare, by their names in both kinds of files.
#include "model/layers/param_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/str_cat.h"
#include "files/architectures.h"
#include "files/synthetic_model.h"
#include "model/load/load_model.h"
#include "model/test_model_configs.h"

namespace sluice::model {
namespace {

using files::Architecture;
using files::ModelConfig;
using ::testing::ElementsAre;
using testing::SmallConfig;
using testing::SmallLfm2;
using testing::SmallMamba2;
using testing::SmallMiniMax;
using testing::SmallQwen3Next;

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
  ModelConfig config = SmallConfig(Architecture::kQwen3);
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

TEST(Params, StreamsHaveMatricesOfTheirOwnThatGgufKeepsInOneTensor) {
  ModelConfig config = SmallConfig(Architecture::kGemma3n);
  config.layer_inputs = {.width = 7, .rows = 40};
  config.altup = {.streams = 4, .laurel_rank = 5};
  const auto specs = Params(config);
  const auto& begin = Find(specs, "streams.begin");
  EXPECT_EQ(begin.rows, 3 * 64);
  ASSERT_EQ(begin.hugging_face[0].size(), 3u);
  EXPECT_EQ(begin.hugging_face[0][2].name, "model.altup_projections.2.weight");
  EXPECT_EQ(begin.hugging_face[2][0].name, "model.language_model.altup_projections.0.weight");
  EXPECT_EQ(begin.gguf[0][0].name, "altup_proj.weight");
  const auto& end = Find(specs, "streams.end.2");
  EXPECT_EQ(end.rows, 64);
  EXPECT_EQ(end.hugging_face[0][0].name, "model.altup_unembed_projections.1.weight");
  EXPECT_EQ(end.gguf[0][0].pick.first, 1);
  EXPECT_TRUE(begin.gguf_stacked && end.gguf_stacked && end.begins_residual);
  EXPECT_FALSE(Declares(specs, "streams.end.4"));
  EXPECT_EQ(Find(specs, "layers.1.altup.predict").rows, 16);
  EXPECT_EQ(Find(specs, "layers.1.altup.correct").rows, 4);
  EXPECT_EQ(Find(specs, "layers.1.altup.router_norm").factor, 1.0f / 64);
  EXPECT_EQ(Find(specs, "layers.1.altup.scale").hugging_face[0][0].name,
            "model.layers.1.altup.correct_output_scale");
  EXPECT_EQ(Find(specs, "layers.1.laurel.left").rows, 5);
  EXPECT_EQ(Find(specs, "layers.1.laurel.right").columns, 5);
  config.altup.scaled = false;
  EXPECT_FALSE(Declares(Params(config), "layers.1.altup.scale"));
  EXPECT_FALSE(Declares(Params(SmallConfig(Architecture::kGemma3)), "streams.begin"));
}

TEST(Params, LayersThatReuseChosenPositionsHaveNoIndexer) {
  ModelConfig config = SmallConfig(Architecture::kGlmMoeDsa);
  config.latent = {.kv_rank = 20, .q_rank = 8, .nope_dim = 8, .rope_dim = 4, .value_dim = 8};
  config.latent.indexer = {.heads = 2, .head_dim = 12, .top_k = 3};
  config.layers[1].reuses_positions = true;
  const auto specs = Params(config);
  EXPECT_TRUE(Declares(specs, "layers.0.indexer.q") && Declares(specs, "layers.2.indexer.k"));
  for (const char* name : {"q", "k", "k_norm", "k_norm_bias", "weights"})
    EXPECT_FALSE(Declares(specs, StrCat("layers.1.indexer.", name))) << name;
  EXPECT_TRUE(Declares(specs, "layers.1.attention.values"));
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
