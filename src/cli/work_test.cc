#include "cli/work.h"

#include <gtest/gtest.h>

#include "base/source_dir_fixture.h"
#include "cli/bench_ceilings.h"

namespace sluice::cli {
namespace {

class Tensors : public files::TensorSource {
 public:
  explicit Tensors(std::vector<files::FileTensor> tensors) : tensors_(std::move(tensors)) {}
  const std::vector<files::FileTensor>& tensors() const override { return tensors_; }
  const files::FileTensor* Find(std::string_view) const override { return nullptr; }
  void Release(const files::FileTensor&) const override {}

 private:
  const std::vector<files::FileTensor> tensors_;
};

files::FileTensor Tensor(const char* name, DType dtype, std::vector<int64_t> shape, size_t bytes) {
  static const std::vector<std::byte> kBytes(1 << 16);
  return {name, dtype, std::move(shape), std::span(kBytes).first(bytes)};
}

// The demo model's sizes.
files::ModelConfig SmolLm() {
  files::ModelConfig config;
  config.hidden_size = 576;
  config.num_layers = 30;
  config.num_heads = 9;
  config.num_kv_heads = 3;
  config.head_dim = 64;
  config.intermediate_size = 1536;
  config.vocab_size = 49152;
  config.tied_embeddings = true;
  config.layers.resize(30);
  return config;
}

TEST(Work, OfTheDemoModelCountsEveryMatrixOnce) {
  const ModelWork work = WorkOf(SmolLm(), Tensors({}), KvTokenBytes(SmolLm(), DType::kF16));
  // q and o 576 x 576, k and v 192 x 576, gate, up and down 1536 x 576.
  const double layer = 2 * 576 * 576 + 2 * 192 * 576 + 3 * 1536 * 576;
  EXPECT_DOUBLE_EQ(work.layer_macs, 30 * layer);
  EXPECT_DOUBLE_EQ(work.output_macs, 49152.0 * 576);
  EXPECT_DOUBLE_EQ(work.pair_macs, 2 * 576);        // q.k and p.v of 9 heads of 64
  EXPECT_DOUBLE_EQ(work.kv_bytes, 2 * 3 * 64 * 2);  // 768 bytes; 23 KB a token in 30 layers
  EXPECT_EQ(work.windows, std::vector<int>(30, 0));
}

TEST(Work, AFeedForwardPartWithoutAGateHasTwoMatrices) {
  files::ModelConfig config = SmolLm();
  const double gated = WorkOf(config, Tensors({}), 0).layer_macs;
  config.plain_mlp = true;
  EXPECT_DOUBLE_EQ(gated - WorkOf(config, Tensors({}), 0).layer_macs, 30.0 * 1536 * 576);
}

TEST(Work, ALayerWithAStateReadsItWhateverTheContext) {
  files::ModelConfig config = SmolLm();
  config.num_layers = 2;
  config.layers.resize(2);
  config.layers[0].kind = files::LayerKind::kLinear;
  config.attention_gate = true;
  config.linear = {
      .key_heads = 2, .value_heads = 4, .key_head_dim = 16, .value_head_dim = 8, .conv_kernel = 4};
  const ModelWork work = WorkOf(config, Tensors({}), KvTokenBytes(config, DType::kF16));
  const double state = 4 * 8 * 16, channels = 2 * 32 + 32;
  // q, k, v, gate, b and a; the output matrix; in the other layer q, its gate, k, v and o.
  EXPECT_DOUBLE_EQ(work.layer_macs, 576 * (channels + 32 + 8) + 576 * 32 + 3 * 576 * 576 +
                                        2 * 192 * 576 + 2 * 3 * 1536 * 576);
  EXPECT_EQ(work.windows, std::vector<int>(1, 0));
  EXPECT_DOUBLE_EQ(work.state_macs, 3 * state + 4 * channels);
  EXPECT_DOUBLE_EQ(work.state_bytes, 8 * (state + 3 * channels));
  EXPECT_DOUBLE_EQ(DecodeBytes(work, 100, 3) - DecodeBytes(work, 100, 2),
                   work.state_bytes + 100 * work.kv_bytes);
  EXPECT_DOUBLE_EQ(PrefillMacs(work, 1),
                   work.layer_macs + work.state_macs + work.output_macs + work.pair_macs);
}

TEST(Work, AConvolutionBetweenGatesHasTwoMatricesAndItsLastInputs) {
  files::ModelConfig config = SmolLm();
  config.num_layers = 2;
  config.layers.resize(2);
  config.layers[1].kind = files::LayerKind::kShortConv;
  config.short_conv.kernel = 3;
  const ModelWork work = WorkOf(config, Tensors({}), KvTokenBytes(config, DType::kF16));
  EXPECT_DOUBLE_EQ(work.layer_macs,
                   4 * 576 * 576 + 2 * 576 * 576 + 2 * 192 * 576 + 2 * 3 * 1536 * 576);
  EXPECT_EQ(work.windows, std::vector<int>(1, 0));
  EXPECT_DOUBLE_EQ(work.state_macs, 5 * 576);
  EXPECT_DOUBLE_EQ(work.state_bytes, 8 * 2 * 576);
}

TEST(Work, ALayerOfMambaHasNoFeedForwardPartWhereTheModelHasNone) {
  files::ModelConfig config = SmolLm();
  config.num_layers = 2;
  config.layers.resize(2);
  config.linear = {.key_heads = 2,
                   .value_heads = 4,
                   .key_head_dim = 24,
                   .value_head_dim = 16,
                   .conv_kernel = 4,
                   .mamba = true};
  for (files::LayerConfig& layer : config.layers) {
    layer.kind = files::LayerKind::kMamba;
    layer.mlp = false;
  }
  const ModelWork work = WorkOf(config, Tensors({}), KvTokenBytes(config, DType::kF16));
  // Gate, values, keys and queries of both groups, step sizes; then back.
  EXPECT_DOUBLE_EQ(work.layer_macs, 2 * (576 * (64 + 64 + 2 * 48 + 4) + 64 * 576));
  EXPECT_TRUE(work.windows.empty());
  EXPECT_DOUBLE_EQ(work.state_macs, 2 * (3 * 64 * 24 + 4 * 160));
  EXPECT_DOUBLE_EQ(work.state_bytes, 2 * 8 * (64 * 24 + 3 * 160));
}

TEST(Work, AnIndexerScoresAllTokensOfWhichALayerSeesSome) {
  files::ModelConfig config = SmolLm();
  config.num_layers = 1;
  config.layers.resize(1);
  config.latent = {.kv_rank = 48, .q_rank = 32, .nope_dim = 16, .rope_dim = 16, .value_dim = 16};
  config.latent.indexer = {.heads = 4, .head_dim = 32, .top_k = 10};
  const int64_t bytes = KvTokenBytes(config, DType::kF16);
  EXPECT_EQ(bytes, 2 * (64 + 32));
  const ModelWork work = WorkOf(config, Tensors({}), bytes);
  EXPECT_EQ(work.windows, std::vector<int>(1, 10));
  EXPECT_DOUBLE_EQ(work.kv_bytes, 2 * 64);
  EXPECT_DOUBLE_EQ(work.index_bytes, 2 * 32);
  EXPECT_DOUBLE_EQ(work.index_macs, 4 * 32);
  EXPECT_DOUBLE_EQ(DecodeBytes(work, 100, 2), work.weight_bytes + 2 * (10 * 2 * 64 + 100 * 2 * 32));
  EXPECT_DOUBLE_EQ(PrefillMacs(work, 12), 12 * work.layer_macs + work.output_macs +
                                              (55 + 20) * work.pair_macs + 78 * 4 * 32);
}

TEST(Work, CodesKeepAScaleWithEachHead) {
  EXPECT_EQ(KvHeadBytes(DType::kF32, 64), 256);
  EXPECT_EQ(KvHeadBytes(DType::kBF16, 64), 128);
  EXPECT_EQ(KvHeadBytes(DType::kF8E4M3, 64), 68);
  EXPECT_EQ(KvHeadBytes(DType::kI8, 128), 132);
}

TEST(Work, ATableThatIsNotTheOutputIsNotRead) {
  const std::vector<files::FileTensor> apart = {
      Tensor("model.embed_tokens.weight", DType::kF32, {100, 10}, 4000),
      Tensor("model.layers.0.mlp.up_proj.weight", DType::kF32, {10, 10}, 400),
      Tensor("lm_head.weight", DType::kF32, {100, 10}, 4000)};
  files::ModelConfig config = SmolLm();
  config.tied_embeddings = false;
  EXPECT_EQ(WorkOf(config, Tensors(apart), 128).weight_bytes, 4400);
  // A copy of the table in a file that ties the two is not loaded.
  config.tied_embeddings = true;
  EXPECT_EQ(WorkOf(config, Tensors(apart), 128).weight_bytes, 4400);
  const std::vector<files::FileTensor> tied = {
      Tensor("token_embd.weight", DType::kQ8_0, {100, 32}, 3400),
      Tensor("blk.0.ffn_up.weight", DType::kQ4_1, {10, 32}, 200)};
  EXPECT_EQ(WorkOf(config, Tensors(tied), 128).weight_bytes, 3600);
}

TEST(Work, TablesAreCalledAsTheArchitectureCallsThem) {
  files::ModelConfig config = SmolLm();
  config.architecture = files::Architecture::kGpt2;
  const std::vector<files::FileTensor> gpt2 = {
      Tensor("transformer.wte.weight", DType::kF32, {100, 10}, 4000),
      Tensor("transformer.wpe.weight", DType::kF32, {50, 10}, 2000),
      Tensor("transformer.h.0.mlp.c_fc.weight", DType::kF16, {10, 10}, 200)};
  EXPECT_EQ(WorkOf(config, Tensors(gpt2), 0).weight_bytes, 4200);
  EXPECT_EQ(LayerFormat(config, Tensors(gpt2)), DType::kF16);
  config.architecture = files::Architecture::kGptNeoX;
  config.tied_embeddings = false;
  const std::vector<files::FileTensor> apart = {
      Tensor("gpt_neox.embed_in.weight", DType::kF32, {100, 10}, 4000),
      Tensor("gpt_neox.layers.0.mlp.dense_4h_to_h.weight", DType::kF16, {10, 10}, 200),
      Tensor("embed_out.weight", DType::kF32, {100, 10}, 5000)};
  EXPECT_EQ(WorkOf(config, Tensors(apart), 0).weight_bytes, 5200);
  EXPECT_EQ(LayerFormat(config, Tensors(apart)), DType::kF16);
}

TEST(Work, TheLayersFormatIsWhatMostOfTheirBytesAreIn) {
  EXPECT_EQ(LayerFormat(SmolLm(), Tensors({
                                      Tensor("token_embd.weight", DType::kQ8_0, {9, 9}, 9999),
                                      Tensor("blk.0.attn_norm.weight", DType::kF32, {999}, 3996),
                                      Tensor("blk.0.ffn_up.weight", DType::kQ4_K, {9, 9}, 300),
                                      Tensor("blk.0.ffn_down.weight", DType::kQ6_K, {9, 9}, 200),
                                  })),
            DType::kQ4_K);
}

TEST(Work, PrefillAttendsToTheTriangleAndAWindowToItsBand) {
  ModelWork work;
  work.pair_macs = 1;
  work.windows = {0};
  EXPECT_EQ(PrefillMacs(work, 4), 1 + 2 + 3 + 4);
  work.windows = {3};
  EXPECT_EQ(PrefillMacs(work, 4), 1 + 2 + 3 + 3);
  work.windows = {8, 0};
  EXPECT_EQ(PrefillMacs(work, 4), 10 + 10);
  work.layer_macs = 100;
  work.output_macs = 7;  // of the last row alone
  EXPECT_EQ(PrefillMacs(work, 4), 400 + 7 + 20);
}

TEST(Work, AStepReadsTheWeightsOnceAndTheCacheOfEachSequence) {
  ModelWork work;
  work.weight_bytes = 1000;
  work.kv_bytes = 2;
  work.pair_macs = 3;
  work.layer_macs = 10;
  work.output_macs = 5;
  work.windows = {0, 100};
  EXPECT_EQ(DecodeBytes(work, 50, 1), 1000 + 50 * 2 * 2);
  EXPECT_EQ(DecodeBytes(work, 500, 8), 1000 + 8 * (500 + 100) * 2);
}

TEST(Work, TheContextOfATimedDecodeIsItsMean) {
  EXPECT_EQ(MeanContext(0, 127), 1 + 64);  // no context: one token is there to begin with
  EXPECT_EQ(MeanContext(2048, 1), 2049);
}

TEST(Share, IsNeededOverPossible) {
  EXPECT_DOUBLE_EQ(ShareOfCeiling(100, 2, 100), 0.5);
  EXPECT_EQ(ShareOfCeiling(100, 2, 0), 0);  // no ceiling was measured
  EXPECT_EQ(ShareOfCeiling(100, 0, 5), 0);
}

TEST(Share, IsUnknownOfAModelWithExperts) {
  EngineOptions options;
  options.model = SourceDir() + "/tests/golden/models/mixtral";
  options.device = "cpu";
  options.threads = 1;
  const auto ceilings = FigureCeilings::Open(options);
  ASSERT_TRUE(ceilings.ok()) << ceilings.status().message();
  const auto prefill = (*ceilings)->Prefill(512, 1000), decode = (*ceilings)->Decode(512, 1, 100);
  ASSERT_TRUE(prefill.ok() && decode.ok());
  EXPECT_EQ(ToText(*prefill), "-");
  EXPECT_EQ(ToText(*decode), "-");
}

TEST(Share, IsPrintedWithWhatItIsAShareOf) {
  FigureShares shares;
  EXPECT_EQ(ToText(shares), "-");
  EXPECT_TRUE(ToJson(shares)["ceiling_share"].is_null());
  shares.instruction = "amx_int8";
  shares.ceiling_share = shares.compute_share = 0.123;
  EXPECT_EQ(ToText(shares), "12 % of amx_int8");
  shares.ceiling_share = shares.read_share = 0.876;
  EXPECT_EQ(ToText(shares), "88 % of reads, 12 % of amx_int8");
  EXPECT_EQ(ToJson(shares)["ceiling_share"], 0.876);
  EXPECT_EQ(ToJson(shares)["ceilings"]["instruction"], "amx_int8");
}

}  // namespace
}  // namespace sluice::cli
