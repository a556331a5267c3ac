#include "backend/cuda/attention/config.h"

#include <gtest/gtest.h>

#include "backend/cuda/attention/params.h"

namespace sluice::cuda {
namespace {

ops::Attention::Desc Llama(DType activation, DType kv) {
  ops::Attention::Desc desc;
  desc.activation = activation;
  desc.q_heads = 32;
  desc.kv_heads = 8;
  desc.head_dim = 128;
  desc.kv = {kv, 8, 128, 128, 16};
  return desc;
}

AttentionConfig Decode(int64_t sequences, int64_t context) {
  return ConfigureAttention(AttentionProducts::kBF16, Llama(DType::kBF16, DType::kBF16),
                            {sequences, sequences, context / 16}, 132);
}

TEST(AttentionConfigTest, LaunchesDoNotDependOnTheBatch) {
  for (const int64_t context : {1024, 8192, 131072}) {
    const bool combines = Decode(1, context).combine_blocks > 0;
    for (const int64_t sequences : {2, 64, 512}) {
      EXPECT_EQ(Decode(sequences, context).combine_blocks > 0, combines) << sequences;
    }
  }
  EXPECT_EQ(Decode(64, 256).combine_blocks, 0u);  // one split: nothing to combine
}

TEST(AttentionConfigTest, ALoneSequenceIsSplitAndAFullBatchIsNot) {
  EXPECT_EQ(Decode(1, 4096).workers, 16u);
  EXPECT_GT(Decode(64, 4096).workers, 1u);
  EXPECT_EQ(Decode(512, 131072).workers, 1u);
}

TEST(AttentionConfigTest, ScratchIsBounded) {
  for (const int64_t sequences : {1, 16, 64, 512}) {
    for (const int64_t context : {4096, 32768, 131072}) {
      const AttentionConfig config = Decode(sequences, context);
      EXPECT_LE(config.partial_bytes + config.state_bytes, size_t{256} << 20);
      EXPECT_EQ(config.split_rows > 0, config.partial_bytes > 0);
    }
  }
}

// Sequence s has its tiles from floor(start * group / rows) + s on.
TEST(AttentionConfigTest, TheGridCoversEverySequence) {
  const int64_t lengths[] = {1, 0, 700, 3, 64, 16, 1, 17, 0};
  int64_t start = 0, s = 0, last = -1;
  for (const int64_t tokens : lengths) {
    const int64_t first = start * 4 / kMmaRows + s, needed = (tokens * 4 + kMmaRows - 1) / kMmaRows;
    EXPECT_GT(first, last) << s;
    last = first + needed - 1;
    start += tokens;
    ++s;
  }
  const AttentionConfig config = ConfigureAttention(
      AttentionProducts::kBF16, Llama(DType::kBF16, DType::kBF16), {start, s, 64}, 132);
  EXPECT_LT(last, config.tiles);
}

TEST(AttentionConfigTest, NothingIsLaunchedForNoTokens) {
  const AttentionConfig config =
      ConfigureAttention(AttentionProducts::kF32, Llama(DType::kF32, DType::kF16), {0, 4, 64}, 132);
  EXPECT_EQ(config.tiles, 0u);
  EXPECT_EQ(config.combine_blocks, 0u);
}

TEST(AttentionConfigTest, KernelsAreNamedByWhatTheyMultiply) {
  const auto function = [](AttentionProducts products, DType activation, DType kv, int head_dim) {
    ops::Attention::Desc desc = Llama(activation, kv);
    desc.head_dim = desc.kv.k_head_dim = desc.kv.v_head_dim = head_dim;
    EXPECT_TRUE(AttentionSupports(products, desc, {}).ok);
    return ConfigureAttention(products, desc, {1, 1, 64}, 132).function;
  };
  using enum AttentionProducts;
  EXPECT_EQ(function(kBF16, DType::kBF16, DType::kBF16, 128), "sm80_bf16_attention_128");
  EXPECT_EQ(function(kF16, DType::kF16, DType::kF16, 80), "sm80_f16_attention_96");
  EXPECT_EQ(function(kBF16, DType::kF16, DType::kI8, 64), "sm80_bf16_attention_i8_f16_64");
  EXPECT_EQ(function(kBF16, DType::kBF16, DType::kF8E4M3, 256), "sm80_bf16_attention_f8_bf16_256");
  EXPECT_EQ(function(kF32, DType::kF32, DType::kF16, 80), "any_f32_attention_128");
}

TEST(AttentionConfigTest, MatrixKernelsLeaveMixedTypesToPlainArithmetic) {
  using enum AttentionProducts;
  EXPECT_FALSE(AttentionSupports(kBF16, Llama(DType::kBF16, DType::kF16), {}).ok);
  EXPECT_FALSE(AttentionSupports(kBF16, Llama(DType::kF32, DType::kBF16), {}).ok);
  EXPECT_FALSE(AttentionSupports(kF16, Llama(DType::kF16, DType::kI8), {}).ok);
  EXPECT_TRUE(AttentionSupports(kF32, Llama(DType::kBF16, DType::kF16), {}).ok);
}

TEST(AttentionConfigTest, SharedMemoryFitsAThreadBlock) {
  for (const int dim : {64, 96, 128, 256}) {
    EXPECT_LE(MmaSharedBytes(dim, false), 227 * 1024) << dim;
    EXPECT_LE(MmaSharedBytes(dim, true), 227 * 1024) << dim;
    EXPECT_LE(PlainSharedBytes(dim), 227 * 1024) << dim;
  }
}

}  // namespace
}  // namespace sluice::cuda
