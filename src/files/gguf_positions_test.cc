#include "files/gguf_positions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "files/test_configs.h"

namespace sluice::files {
namespace {

using testing::ByteWriter;
using testing::ErrorOf;
using testing::GgufWriter;
using testing::Good;
using ::testing::HasSubstr;
using testing::TinyGguf;

// The tiny file of an architecture with LayerNorms.
GgufWriter WithLayerNorms(const std::string& architecture) {
  return TinyGguf(architecture).F32(architecture + ".attention.layer_norm_epsilon", 1e-5f);
}
GgufWriter WithLayers(GgufWriter file, uint32_t layers) {
  for (GgufWriter::Key& key : file.keys) {
    if (key.name.ends_with(".block_count")) key.value = ByteWriter().Put(layers).bytes();
  }
  return file;
}

TEST(GgufPositionsTest, Gpt2HasATableOfItsContext) {
  const ModelConfig config = Good(WithLayerNorms("gpt2"));
  EXPECT_EQ(config.position_rows, 128);
  EXPECT_FALSE(config.layers[0].use_rope);
}

TEST(GgufPositionsTest, Alibi) {
  const ModelConfig bloom = Good(WithLayerNorms("bloom"));
  ASSERT_EQ(bloom.alibi_slopes.size(), 4u);
  EXPECT_EQ(bloom.alibi_slopes[0], 0.25f);
  EXPECT_TRUE(bloom.embedding_norm);
  const ModelConfig mpt = Good(WithLayerNorms("mpt").F32("mpt.attention.max_alibi_bias", 16.0f));
  EXPECT_EQ(mpt.alibi_slopes[0], 0.0625f);
  EXPECT_FALSE(mpt.layers[1].use_rope);
  EXPECT_THAT(ErrorOf(WithLayerNorms("mpt")),
              HasSubstr("\"mpt.attention.max_alibi_bias\" is 0; models of the architecture mpt"));
  EXPECT_THAT(ErrorOf(WithLayerNorms("mpt")
                          .F32("mpt.attention.max_alibi_bias", 8.0f)
                          .F32("mpt.attention.clamp_kqv", 6.0f)),
              HasSubstr("clip Q, K and V"));
  EXPECT_TRUE(Good(TinyGguf("baichuan")).alibi_slopes.empty());
  const ModelConfig thirteen = Good(WithLayers(TinyGguf("baichuan"), 40));
  EXPECT_EQ(thirteen.alibi_slopes.size(), 4u);
  EXPECT_FALSE(thirteen.layers[39].use_rope);
}

TEST(GgufPositionsTest, Llama4) {
  const ModelConfig config = Good(WithLayers(TinyGguf("llama4"), 4));
  EXPECT_TRUE(config.chunked_window);
  EXPECT_EQ(config.sliding_window, 8192);
  EXPECT_EQ(config.growth_tokens, 8192);
  EXPECT_EQ(config.layers[2].kind, LayerKind::kWindow);
  EXPECT_EQ(config.layers[3].kind, LayerKind::kFull);
  EXPECT_TRUE(config.layers[2].use_rope && !config.layers[3].use_rope);
  EXPECT_EQ(config.qk_norm, QkNormKind::kHeadPlain);
  const ModelConfig plain =
      Good(WithLayers(TinyGguf("llama4").U32("llama4.attention.sliding_window", 0), 4));
  EXPECT_FALSE(plain.chunked_window);
  EXPECT_EQ(plain.growth_tokens, 0);
  EXPECT_TRUE(plain.layers[3].use_rope);
}

TEST(GgufPositionsTest, ParallelBlocksAreWhatTheFileSays) {
  EXPECT_TRUE(Good(WithLayerNorms("gptneox")).parallel_norms);
  const ModelConfig serial =
      Good(WithLayerNorms("gptneox").Bool("gptneox.use_parallel_residual", false));
  EXPECT_FALSE(serial.parallel_residual || serial.parallel_norms);
  const ModelConfig falcon = Good(WithLayerNorms("falcon"));
  EXPECT_TRUE(falcon.parallel_residual && !falcon.parallel_norms);
  EXPECT_TRUE(Good(WithLayerNorms("falcon").Add("blk.0.attn_norm_2.weight", DType::kF32, {64}))
                  .parallel_norms);
}

}  // namespace
}  // namespace sluice::files
