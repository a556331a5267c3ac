#include "backend/cuda/attention/config.h"

#include <algorithm>

#include "backend/cuda/attention/params.h"

namespace sluice::cuda {
namespace {

constexpr int64_t kScratchMax = int64_t{256} << 20;
constexpr int64_t kBlocksPerUnit = 16;  // thread blocks wanted for each SM
constexpr int64_t kSplitTilesMax = 4;   // longer chunks fill the device without being split
constexpr int64_t kWorkersMax = 65535;

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

int PaddedDim(AttentionProducts products, int head_dim) {
  if (head_dim <= 64) return 64;
  if (products != AttentionProducts::kF32 && head_dim <= 96) return 96;
  return head_dim <= 128 ? 128 : 256;
}

void ChooseKernel(AttentionProducts products, const ops::Attention::Desc& desc,
                  AttentionConfig& config) {
  const int dim = PaddedDim(products, desc.head_dim);
  const bool codes = ops::KvHasScales(desc.kv.dtype);
  if (products == AttentionProducts::kF32) {
    config.module = "any_f32_attention";
    config.function = StrCat(config.module, "_", dim);
    config.rows = kPlainRows;
    config.threads = kPlainThreads;
    config.shared_bytes = PlainSharedBytes(dim);
    return;
  }
  config.rows = kMmaRows;
  config.threads = kMmaThreads;
  config.shared_bytes = MmaSharedBytes(dim, codes);
  if (!codes) {
    config.module =
        products == AttentionProducts::kF16 ? "sm80_f16_attention" : "sm80_bf16_attention";
    config.function = StrCat(config.module, "_", dim);
    return;
  }
  config.module = desc.kv.dtype == DType::kI8 ? "sm80_bf16_attention_i8" : "sm80_bf16_attention_f8";
  config.function = StrCat(config.module, desc.activation == DType::kF16 ? "_f16_" : "_bf16_", dim);
}

}  // namespace

std::string AttentionConfig::ToString() const {
  return StrCat(function, " grid ", tiles, " x ", workers, ", up to ", splits_max,
                " splits for sequences of up to ", split_rows, " rows, ", shared_bytes,
                " bytes shared, ", partial_bytes + state_bytes, " bytes scratch, combine ",
                combine_blocks);
}

AttentionConfig ConfigureAttention(AttentionProducts products, const ops::Attention::Desc& desc,
                                   const AttentionSizes& sizes, int compute_units) {
  AttentionConfig config;
  ChooseKernel(products, desc, config);
  const int64_t group = desc.q_heads / desc.kv_heads;
  const int64_t tiles = sizes.tokens * group / config.rows + sizes.sequences;
  config.tiles = static_cast<unsigned>(sizes.tokens == 0 || sizes.sequences == 0 ? 0 : tiles);
  const int64_t splits =
      CeilDiv(sizes.blocks_max * desc.kv.kernel_block_tokens, int64_t{kSplitTokens});
  config.splits_max = static_cast<int>(std::max<int64_t>(splits, 1));
  if (config.tiles == 0 || splits <= 1) return config;
  config.combine_blocks = 1;  // a call's number of launches depends on blocks_max alone
  const int64_t parts = sizes.tokens * desc.q_heads * splits;
  if (parts * (desc.head_dim + 2) * 4 > kScratchMax) return config;
  config.split_rows = static_cast<int>(kSplitTilesMax * config.rows);
  config.workers = static_cast<unsigned>(
      std::clamp(CeilDiv(compute_units * kBlocksPerUnit, tiles * desc.kv_heads), int64_t{1},
                 std::min(splits, kWorkersMax)));
  config.partial_bytes = static_cast<size_t>(parts * desc.head_dim * 4);
  config.state_bytes = static_cast<size_t>(parts * 2 * 4);
  config.combine_blocks =
      static_cast<unsigned>(CeilDiv(sizes.tokens * desc.q_heads, kCombineThreads / 32));
  return config;
}

ops::Support AttentionSupports(AttentionProducts products, const ops::Attention::Desc& desc,
                               const device::DeviceFacts& facts) {
  ops::Support support = ops::RefAttentionSupports(desc, facts);
  if (!support.ok) return support;
  if (desc.head_dim > 256)
    return ops::Support::No(StrCat("heads of ", desc.head_dim, " numbers, at most 256"));
  if (products == AttentionProducts::kF32) return support;
  if (desc.head_dim % 8 != 0)
    return ops::Support::No(StrCat("heads of ", desc.head_dim, " numbers are no multiple of 8"));
  const bool codes = ops::KvHasScales(desc.kv.dtype);
  const DType same = products == AttentionProducts::kF16 ? DType::kF16 : DType::kBF16;
  const bool plain = desc.activation == same && desc.kv.dtype == same;
  const bool widened =
      products == AttentionProducts::kBF16 && codes && desc.activation != DType::kF32;
  if (plain || widened) return support;
  return ops::Support::No(StrCat("multiplies ", Name(same), ", not ", Name(desc.activation),
                                 " by KV of ", Name(desc.kv.dtype)));
}

}  // namespace sluice::cuda
