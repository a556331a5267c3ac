#include "backend/cuda/attention/config.h"

#include <gtest/gtest.h>

#include "backend/cuda/attention/cluster_params.h"
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

TEST(AttentionConfigTest, APositionBehindASplitBeginsTheNext) {
  EXPECT_EQ(SplitsOf(1, 8), 1);
  EXPECT_EQ(SplitsOf(256, 8), 1);
  EXPECT_EQ(SplitsOf(8192, 8), 32);
  EXPECT_EQ(SplitsOf(8193, 8), 33);
  EXPECT_EQ(SplitsOf(8224, 8), 33);
}

TEST(AttentionConfigTest, ThreadBlocksAreAsManyAsRunAtATimeOrThereIsWorkFor) {
  EXPECT_EQ(Decode(64, 4096).thread_blocks, 2u * 132);
  EXPECT_EQ(Decode(512, 131072).thread_blocks, 2u * 132);
  EXPECT_EQ(Decode(1, 1024).thread_blocks, 64u);  // two tiles at most, 8 heads, 4 splits
}

TEST(AttentionConfigTest, ScratchIsBoundedAndNoSmallerForALargerStep) {
  size_t before = 0;
  for (const int64_t sequences : {1, 16, 64, 512}) {
    for (const int64_t context : {4096, 32768, 131072}) {
      const AttentionConfig config = Decode(sequences, context);
      EXPECT_LE(config.partial_bytes + config.state_bytes, size_t{256} << 20);
      EXPECT_EQ(config.state_bytes % 16, 0u) << "partial results follow";
      EXPECT_GE(Decode(sequences, 131072).slots_max, config.slots_max);
      EXPECT_GE(Decode(512, context).slots_max, config.slots_max);
    }
    EXPECT_GE(Decode(sequences, 131072).partial_bytes, before);
    before = Decode(sequences, 131072).partial_bytes;
  }
  // A sequence of 131,072 tokens can be split however many there may be.
  EXPECT_GE(Decode(512, 131072).slots_max, 131072 / kSplitTokens);
}

TEST(AttentionConfigTest, PartialResultsOfAnyNumberOfHeadsBeginWhereFourNumbersAreReadAtOnce) {
  ops::Attention::Desc desc = Llama(DType::kF16, DType::kF16);
  desc.q_heads = 7;
  desc.kv_heads = desc.kv.kv_heads = 1;
  const AttentionConfig config =
      ConfigureAttention(AttentionProducts::kF16, desc, {1, 1, 112}, 132);
  EXPECT_EQ(config.slots_max, 7);
  EXPECT_EQ(config.state_bytes, 400u) << "392, rounded up";
}

TEST(AttentionConfigTest, NothingIsLaunchedForNoTokens) {
  const AttentionConfig config =
      ConfigureAttention(AttentionProducts::kF32, Llama(DType::kF32, DType::kF16), {0, 4, 64}, 132);
  EXPECT_EQ(config.thread_blocks, 0u);
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

TEST(AttentionConfigTest, ChunksOfPromptsGoToTheWideKernel) {
  const auto wide = [](AttentionProducts products, const ops::Attention::Desc& desc, int64_t tokens,
                       int64_t sequences) {
    return ConfigureAttention(products, desc, {tokens, sequences, 512}, 132).wide;
  };
  using enum AttentionProducts;
  ops::Attention::Desc desc = Llama(DType::kBF16, DType::kBF16);
  EXPECT_EQ(wide(kBF16, desc, 2048, 1).function, "sm90_bf16_attention_wide_128");
  EXPECT_EQ(wide(kBF16, desc, 2048, 1).thread_blocks, 132u);
  EXPECT_EQ(wide(kBF16, desc, 65, 1).thread_blocks, 32u);  // four tiles at most, of 8 heads
  EXPECT_EQ(wide(kBF16, desc, 64, 1).thread_blocks, 0u) << "four tiles of the other kernel";
  EXPECT_GT(wide(kBF16, desc, 1024 + 255, 256).thread_blocks, 0u) << "a chunk beside decode";
  EXPECT_EQ(wide(kBF16, desc, 256, 256).thread_blocks, 0u) << "decode";
  EXPECT_EQ(wide(kBF16, desc, 5 * 64, 64).thread_blocks, 0u) << "verification of drafts";
  EXPECT_EQ(wide(kF32, Llama(DType::kF32, DType::kF16), 2048, 1).thread_blocks, 0u);
  EXPECT_EQ(wide(kBF16, Llama(DType::kBF16, DType::kI8), 2048, 1).thread_blocks, 0u);
  const ops::Attention::Desc half = Llama(DType::kF16, DType::kF16);
  EXPECT_EQ(wide(kF16, half, 2048, 1).function, "sm90_f16_attention_wide_128");
  for (const auto& [head_dim, name] : {std::pair{40, "64"}, {80, "96"}, {96, "96"}}) {
    desc.head_dim = desc.kv.k_head_dim = desc.kv.v_head_dim = head_dim;
    EXPECT_EQ(wide(kBF16, desc, 2048, 1).function, StrCat("sm90_bf16_attention_wide_", name));
  }
  desc.head_dim = desc.kv.k_head_dim = desc.kv.v_head_dim = 256;
  EXPECT_EQ(wide(kBF16, desc, 2048, 1).thread_blocks, 0u);
}

TEST(AttentionConfigTest, TheWideKernelTakesPagesThatFillItsBlocks) {
  ops::Attention::Desc desc = Llama(DType::kBF16, DType::kBF16);
  for (const int tokens : {8, 16, 32, 64, 128, 1024}) {
    desc.kv.kernel_block_tokens = tokens;
    EXPECT_GT(
        ConfigureAttention(AttentionProducts::kBF16, desc, {2048, 1, 512}, 132).wide.thread_blocks,
        0u)
        << tokens;
  }
  for (const int tokens : {1, 4, 24, 100}) {
    desc.kv.kernel_block_tokens = tokens;
    EXPECT_EQ(
        ConfigureAttention(AttentionProducts::kBF16, desc, {2048, 1, 512}, 132).wide.thread_blocks,
        0u)
        << tokens;
  }
}

TEST(AttentionConfigTest, TreesNeedTheCausalMask) {
  using enum AttentionProducts;
  ops::Attention::Desc desc = Llama(DType::kBF16, DType::kBF16);
  desc.paths = true;
  EXPECT_TRUE(AttentionSupports(kBF16, desc, {}).ok);
  desc.causal = false;
  const ops::Support support = AttentionSupports(kBF16, desc, {});
  EXPECT_FALSE(support.ok);
  EXPECT_NE(support.reason.find("causal mask"), std::string::npos) << support.reason;
}

TEST(AttentionConfigTest, HeadsOf512AreDeclinedInASentence) {
  ops::Attention::Desc desc = Llama(DType::kBF16, DType::kBF16);
  desc.head_dim = desc.kv.k_head_dim = desc.kv.v_head_dim = 512;
  for (const auto products :
       {AttentionProducts::kF32, AttentionProducts::kF16, AttentionProducts::kBF16}) {
    const ops::Support support = AttentionSupports(products, desc, {});
    EXPECT_FALSE(support.ok);
    EXPECT_EQ(support.reason,
              "models with heads of 512 numbers do not run on CUDA, whose kernels take at most "
              "256; use --device cpu or xpu");
  }
}

TEST(AttentionConfigTest, SharedMemoryFitsAThreadBlock) {
  for (const int dim : {64, 96, 128}) EXPECT_LE(WideSharedBytes(dim), 227 * 1024) << dim;
  for (const int dim : {64, 96, 128, 256}) {
    EXPECT_LE(MmaSharedBytes(dim, false), 227 * 1024) << dim;
    EXPECT_LE(MmaSharedBytes(dim, true), 227 * 1024) << dim;
    EXPECT_LE(PlainSharedBytes(dim), 227 * 1024) << dim;
  }
}

TEST(AttentionConfigTest, DecodeIsStreamedFromPagesOfWholeBoxes) {
  const auto of = [](DType kv, int head_dim, int page, int64_t tokens, int64_t sequences) {
    ops::Attention::Desc desc = Llama(DType::kBF16, kv);
    desc.head_dim = desc.kv.k_head_dim = desc.kv.v_head_dim = head_dim;
    desc.kv.kernel_block_tokens = page;
    return ConfigureAttention(AttentionProducts::kBF16, desc, {tokens, sequences, 512}, 132).stream;
  };
  for (const DType kv : {DType::kBF16, DType::kF8E4M3, DType::kI8}) {
    for (const int head_dim : {64, 80, 128}) {
      const StreamConfig stream = of(kv, head_dim, 16, 64, 64);
      EXPECT_EQ(stream.thread_blocks, 2u * 132) << "two on a multiprocessor";
      EXPECT_LE(2 * (stream.shared_bytes + (1 << 10)), 228 << 10);
      EXPECT_TRUE(stream.all);
    }
    EXPECT_GT(of(kv, 128, 64, 64, 64).thread_blocks, 0u);
    EXPECT_EQ(of(kv, 128, 24, 64, 64).thread_blocks, 0u);
    EXPECT_EQ(of(kv, 256, 16, 64, 64).thread_blocks, 0u);
    EXPECT_EQ(of(kv, 128, 16, 320, 64).thread_blocks, 0u) << "verification of drafts";
    EXPECT_EQ(of(kv, 128, 16, 2048, 1).thread_blocks, 0u) << "a prompt alone";
    const StreamConfig beside = of(kv, 128, 16, 2048, 64);
    EXPECT_GT(beside.thread_blocks, 0u) << "decode beside a prompt";
    EXPECT_FALSE(beside.all);
    EXPECT_EQ(beside.tokens, 1);
  }
  EXPECT_EQ(of(DType::kBF16, 96, 16, 2, 2).function, "sm90_bf16_attention_stream_96");
  EXPECT_EQ(of(DType::kF8E4M3, 80, 16, 2, 2).function, "sm90_bf16_attention_stream_f8_bf16_96");
  EXPECT_EQ(of(DType::kI8, 40, 16, 2, 2).function, "sm90_bf16_attention_stream_i8_bf16_64");
}

// 8 KV heads of three sequences and 11 splits are as many items as two thread blocks on each
// multiprocessor.
TEST(AttentionConfigTest, DecodeOfNoMoreSplitsThanThreadBlocksIsNotStreamed) {
  const auto stream = [](int64_t sequences, int64_t splits) {
    return ConfigureAttention(AttentionProducts::kBF16, Llama(DType::kBF16, DType::kBF16),
                              {sequences, sequences, splits * kSplitTokens / 16}, 132)
        .stream;
  };
  EXPECT_EQ(stream(3, 11).thread_blocks, 0u);
  EXPECT_EQ(stream(3, 12).function, "sm90_bf16_attention_stream_128");
  EXPECT_EQ(stream(3, 12).thread_blocks, 264u);
  EXPECT_EQ(stream(1, 33).thread_blocks, 0u);
  EXPECT_EQ(stream(1, 34).function, "sm90_bf16_attention_stream_128");
}

TEST(AttentionConfigTest, ClustersTakeTheSplitsOfFewSequences) {
  const auto of = [](DType kv, int head_dim, int page, int64_t tokens, int64_t sequences,
                     int64_t context) {
    ops::Attention::Desc desc = Llama(DType::kBF16, kv);
    desc.head_dim = desc.kv.k_head_dim = desc.kv.v_head_dim = head_dim;
    desc.kv.kernel_block_tokens = page;
    return ConfigureAttention(AttentionProducts::kBF16, desc, {tokens, sequences, context / page},
                              132)
        .stream;
  };
  constexpr int64_t kContextMax = kClusterItemsMax / 8 * kSplitTokens;  // of one sequence
  for (const int64_t context : {int64_t{256}, int64_t{1024}, kContextMax}) {
    const StreamConfig one = of(DType::kBF16, 128, 16, 1, 1, context);
    EXPECT_EQ(one.function, "sm90_bf16_attention_cluster_128");
    EXPECT_TRUE(one.joins);
    EXPECT_TRUE(one.all);
    EXPECT_EQ(one.thread_blocks % kClusterBlocks, 0u);
    EXPECT_LE(one.thread_blocks, 132u * kClusterBlocksPerUnit);
    const int64_t items = context / kSplitTokens * 8;
    EXPECT_LE(one.thread_blocks, items * kClusterBlocks) << "no more than there are splits";
  }
  EXPECT_FALSE(of(DType::kBF16, 128, 16, 1, 1, kContextMax + 16).joins) << "a split more";
  constexpr int64_t kRows = kClusterRowsMax / 8;
  EXPECT_TRUE(of(DType::kBF16, 128, 16, kRows, kRows, 512).joins);
  EXPECT_FALSE(of(DType::kBF16, 128, 16, kRows + 1, kRows + 1, 512).joins) << "a token more";
  EXPECT_EQ(of(DType::kF8E4M3, 64, 32, 1, 1, 1024).function,
            "sm90_bf16_attention_cluster_f8_bf16_64");
  EXPECT_EQ(of(DType::kI8, 128, 16, 1, 1, 1024).function,
            "sm90_bf16_attention_cluster_i8_bf16_128");
  EXPECT_TRUE(of(DType::kBF16, 128, 16, 1, kClusterSequences, 1024).joins);
  EXPECT_FALSE(of(DType::kBF16, 128, 16, 1, kClusterSequences + 1, 1024).joins);
  EXPECT_FALSE(of(DType::kBF16, 80, 16, 1, 1, 1024).joins) << "heads of another size";
  EXPECT_FALSE(of(DType::kBF16, 128, 24, 1, 1, 960).joins) << "pages of another size";
  EXPECT_FALSE(of(DType::kBF16, 128, 16, 2, 1, 1024).joins) << "verification of drafts";
  for (const bool codes : {false, true}) {
    for (const int dim : {64, 128}) {
      EXPECT_LE(kClusterBlocksPerUnit * (ClusterSharedBytes(dim, codes) + (1 << 10)), 228 << 10);
    }
  }
}

}  // namespace
}  // namespace sluice::cuda
