#include "backend/cuda/attention/latent_config.h"

#include <gmock/gmock.h>

#include "backend/cuda/attention/latent_params.h"

namespace sluice::cuda {
namespace {

using ::testing::HasSubstr;

ops::LatentAttention::Desc DeepSeek(DType activation, DType kv) {
  ops::LatentAttention::Desc desc = {
      .activation = activation, .heads = 128, .key_width = 576, .value_width = 512};
  desc.kv = {kv, 1, 576, 0, 16};
  return desc;
}

TEST(LatentConfigTest, KeysAndValuesAreNamedWhereTheyAreTooWide) {
  ops::LatentAttention::Desc desc = DeepSeek(DType::kF32, DType::kF16);
  EXPECT_TRUE(LatentSupports(AttentionProducts::kF32, desc, {}).ok);
  desc.key_width = desc.kv.k_head_dim = 640;
  EXPECT_THAT(LatentSupports(AttentionProducts::kF32, desc, {}).reason, HasSubstr("640 numbers"));
  desc = DeepSeek(DType::kF32, DType::kF32);
  desc.value_width = 510;
  EXPECT_THAT(LatentSupports(AttentionProducts::kF32, desc, {}).reason,
              HasSubstr("66 numbers before the value"));
  desc.key_width = desc.kv.k_head_dim = 513;
  desc.value_width = 509;
  EXPECT_THAT(LatentSupports(AttentionProducts::kF32, desc, {}).reason, HasSubstr("odd"));
}

TEST(LatentConfigTest, MatrixKernelsTakeOneTypeAndShapeInPagesThatFillBlocks) {
  const auto reason = [](const ops::LatentAttention::Desc& desc) {
    return LatentSupports(AttentionProducts::kBF16, desc, {}).reason;
  };
  ops::LatentAttention::Desc desc = DeepSeek(DType::kBF16, DType::kBF16);
  EXPECT_EQ(reason(desc), "");
  EXPECT_FALSE(LatentSupports(AttentionProducts::kF16, desc, {}).ok);
  desc.kv.kernel_block_tokens = 100;
  EXPECT_THAT(reason(desc), HasSubstr("blocks of 100 tokens"));
  EXPECT_THAT(reason(DeepSeek(DType::kBF16, DType::kF8E4M3)), HasSubstr("KV of"));
  desc = DeepSeek(DType::kBF16, DType::kBF16);
  desc.value_width = 256;
  EXPECT_THAT(reason(desc), HasSubstr("values of 256"));
  desc = DeepSeek(DType::kBF16, DType::kBF16);
  desc.heads = 20;  // a tile has rows of one token
  EXPECT_EQ(LatentRows(AttentionProducts::kBF16, desc), 64);
  EXPECT_EQ(LatentRows(AttentionProducts::kF32, desc), 20);
}

// With lists each token is a sequence as long as its list, and pages of any size will do.
TEST(LatentConfigTest, ListedPositionsHaveAKernelOfTheirOwn) {
  ops::LatentAttention::Desc desc = DeepSeek(DType::kBF16, DType::kBF16);
  desc.listed_max = 2048;
  desc.kv.kernel_block_tokens = 100;
  EXPECT_TRUE(LatentSupports(AttentionProducts::kBF16, desc, {}).ok);
  const AttentionConfig config = ConfigureLatent(AttentionProducts::kBF16, desc, {9, 9, 2048}, 132);
  EXPECT_EQ(config.function, "sm90_bf16_latent_attention_listed");
  EXPECT_EQ(config.combine_blocks, 0u) << "a list of 2048 is one split";
  desc.kv.dtype = DType::kI8;
  EXPECT_EQ(ConfigureLatent(AttentionProducts::kF32, desc, {9, 9, 2048}, 132).function,
            "any_f32_latent_attention_576");
}

TEST(LatentConfigTest, RowsOfFewNumbersHaveAKernelOfTheirOwn) {
  ops::LatentAttention::Desc desc = DeepSeek(DType::kF32, DType::kF32);
  EXPECT_EQ(ConfigureLatent(AttentionProducts::kF32, desc, {1, 1, 4}, 132).function,
            "any_f32_latent_attention_576");
  desc.key_width = desc.kv.k_head_dim = 48;
  desc.value_width = 32;
  EXPECT_EQ(ConfigureLatent(AttentionProducts::kF32, desc, {1, 1, 4}, 132).function,
            "any_f32_latent_attention_128");
}

TEST(LatentConfigTest, LaunchesDoNotDependOnTheBatchAndScratchIsBounded) {
  const auto config = [](int64_t sequences, int64_t context) {
    return ConfigureLatent(AttentionProducts::kBF16, DeepSeek(DType::kBF16, DType::kBF16),
                           {sequences, sequences, context / 16}, 132);
  };
  for (const int64_t context : {256, 8192, 131072}) {
    const bool combines = config(1, context).combine_blocks > 0;
    for (const int64_t sequences : {2, 64, 512}) {
      const AttentionConfig one = config(sequences, context);
      EXPECT_EQ(one.combine_blocks > 0, combines) << sequences;
      EXPECT_LE(one.partial_bytes + one.state_bytes, size_t{256} << 20);
      EXPECT_GE(config(512, context).slots_max, one.slots_max);
    }
  }
  EXPECT_EQ(config(64, 2048).combine_blocks, 0u);  // one split: nothing to combine
  EXPECT_EQ(
      ConfigureLatent(AttentionProducts::kF32, DeepSeek(DType::kF32, DType::kF32), {0, 0, 4}, 132)
          .thread_blocks,
      0u);
}

}  // namespace
}  // namespace sluice::cuda
