#include "backend/cuda/attention/config.h"

#include <algorithm>

#include "backend/cuda/attention/cluster_params.h"
#include "backend/cuda/attention/plan.h"
#include "backend/cuda/counters.h"

namespace sluice::cuda {
namespace {

// For partial results: a batch that has more to split than fits here has enough tiles without.
constexpr int64_t kScratchMax = int64_t{256} << 20;
constexpr int kSharedOfUnit = 227 << 10,
              kSharedOfBlock = 3 << 10;  // bytes; the second: beside ours
constexpr int64_t kCombineBlocksPerUnit = 4;
// Where a step has fewer query tokens of each sequence it verifies drafts, if it does not have so
// many more than sequences that there must be a chunk of a prompt.
constexpr int64_t kChunkTokensMean = 8, kChunkTokens = 512;

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
    config.blocks_per_unit = 3;
    config.shared_bytes = PlainSharedBytes(dim);
    return;
  }
  config.rows = kMmaRows;
  config.threads = kMmaThreads;
  config.blocks_per_unit = dim <= 128 ? 2 : 1;
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

// A sequence may have so many rows that it is the wide kernel's. It costs a launch where none has.
bool MayBeWide(const ops::Attention::Desc& desc, const AttentionSizes& sizes, int tile_rows) {
  const int64_t group = desc.q_heads / desc.kv_heads;
  return sizes.tokens * group > kSplitTilesMax * tile_rows &&
         (sizes.tokens >= kChunkTokensMean * sizes.sequences ||
          sizes.tokens - sizes.sequences >= kChunkTokens);
}

void ChooseWide(AttentionProducts products, const ops::Attention::Desc& desc,
                const AttentionSizes& sizes, int compute_units, AttentionConfig& config) {
  const int dim = PaddedDim(products, desc.head_dim);
  if (products == AttentionProducts::kF32 || ops::KvHasScales(desc.kv.dtype) || dim > 128 ||
      !WidePageFits(desc.kv.kernel_block_tokens) || !MayBeWide(desc, sizes, config.rows))
    return;
  WideConfig& wide = config.wide;
  wide.module =
      products == AttentionProducts::kF16 ? "sm90_f16_attention_wide" : "sm90_bf16_attention_wide";
  wide.function = StrCat(wide.module, "_", dim);
  wide.rows = kWideRows;
  wide.threads = kWideThreads;
  wide.shared_bytes = WideSharedBytes(dim);
  const int64_t rows = sizes.tokens * (desc.q_heads / desc.kv_heads);
  const int64_t tiles = CeilDiv(rows, int64_t{kWideRows}) + sizes.sequences;
  wide.thread_blocks =
      static_cast<unsigned>(std::min<int64_t>(compute_units, tiles * desc.kv_heads));
}

// The kernel's name for the types and the padded size of heads.
void NameStream(AttentionProducts products, const ops::Attention::Desc& desc, bool cluster,
                StreamConfig& stream) {
  const int dim = PaddedDim(products, desc.head_dim);
  const bool halves = products == AttentionProducts::kF16;
  const char* const codes = desc.activation == DType::kF16 ? "_f16_" : "_bf16_";
  if (!ops::KvHasScales(desc.kv.dtype)) {
    if (cluster) {
      stream.module = halves ? "sm90_f16_attention_cluster" : "sm90_bf16_attention_cluster";
    } else {
      stream.module = halves ? "sm90_f16_attention_stream" : "sm90_bf16_attention_stream";
    }
    stream.function = StrCat(stream.module, "_", dim);
    return;
  }
  const bool integers = desc.kv.dtype == DType::kI8;
  if (cluster) {
    stream.module = integers ? "sm90_bf16_attention_cluster_i8" : "sm90_bf16_attention_cluster_f8";
  } else {
    stream.module = integers ? "sm90_bf16_attention_stream_i8" : "sm90_bf16_attention_stream_f8";
  }
  stream.function = StrCat(stream.module, codes, dim);
}

// Decode of few rows, if there is room for all of their partial results.
bool ChooseCluster(AttentionProducts products, const ops::Attention::Desc& desc,
                   const AttentionSizes& sizes, int compute_units, AttentionConfig& config) {
  const int64_t group = desc.q_heads / desc.kv_heads;
  const int64_t rows = sizes.tokens * CeilDiv(group, kStreamRows) * desc.kv_heads;
  const int64_t splits = std::max<int64_t>(
      CeilDiv(sizes.blocks_max * desc.kv.kernel_block_tokens, int64_t{kSplitTokens}), 1);
  static_assert(kClusterRowsMax * kClusterBlocks <= kCounters);
  if (products == AttentionProducts::kF32 || (desc.head_dim != 64 && desc.head_dim != 128) ||
      desc.kv.kernel_block_tokens % kStreamBox != 0 || sizes.tokens > sizes.sequences ||
      sizes.sequences > kClusterSequences || rows > kClusterRowsMax ||
      rows * splits > kClusterItemsMax || (splits > 1 && sizes.tokens * splits > config.slots_max))
    return false;
  StreamConfig& stream = config.stream;
  NameStream(products, desc, true, stream);
  stream.threads = kClusterThreads;
  stream.shared_bytes = ClusterSharedBytes(desc.head_dim, ops::KvHasScales(desc.kv.dtype));
  stream.all = stream.joins = true;
  stream.tokens = static_cast<int>(sizes.tokens);
  const int64_t clusters =
      std::min(rows * splits, int64_t{compute_units} * kClusterBlocksPerUnit / kClusterBlocks);
  stream.thread_blocks = static_cast<unsigned>(std::max<int64_t>(clusters, 1) * kClusterBlocks);
  return true;
}

// Decode alone, or beside a prompt's chunk, where a launch more does not count. A step that
// verifies drafts has other rows.
void ChooseStream(AttentionProducts products, const ops::Attention::Desc& desc,
                  const AttentionSizes& sizes, int compute_units, AttentionConfig& config) {
  const int dim = PaddedDim(products, desc.head_dim);
  const bool all = sizes.tokens <= sizes.sequences;
  if (products == AttentionProducts::kF32 || dim > 128 ||
      desc.kv.kernel_block_tokens % kStreamBox != 0 ||
      !(all || (sizes.sequences > 1 && MayBeWide(desc, sizes, config.rows))))
    return;
  const int64_t group = desc.q_heads / desc.kv_heads;
  const int64_t splits =
      CeilDiv(sizes.blocks_max * desc.kv.kernel_block_tokens, int64_t{kSplitTokens});
  const int64_t items = std::min(sizes.tokens, sizes.sequences) * CeilDiv(group, kStreamRows) *
                        desc.kv_heads * std::max<int64_t>(splits, 1);
  const int64_t blocks = int64_t{compute_units} * kStreamBlocksPerUnit;
  if (items <= blocks) return;
  StreamConfig& stream = config.stream;
  NameStream(products, desc, false, stream);
  stream.threads = kStreamThreads;
  stream.shared_bytes = StreamSharedBytes(dim, ops::KvHasScales(desc.kv.dtype));
  stream.all = all;
  stream.tokens = all ? static_cast<int>(sizes.tokens) : 1;
  stream.thread_blocks = static_cast<unsigned>(blocks);
}

AttentionHeads HeadsOf(const ops::Attention::Desc& desc) {
  return {.q_heads = desc.q_heads,
          .kv_heads = desc.kv_heads,
          .values = desc.head_dim,
          .block_tokens = desc.kv.kernel_block_tokens};
}

}  // namespace

std::string AttentionConfig::ToString() const {
  return StrCat(function, " on ", thread_blocks, " thread blocks, ", shared_bytes,
                " bytes shared, room for ", slots_max, " partial results of a token in ",
                partial_bytes + state_bytes, " bytes, combine ", combine_blocks,
                wide.thread_blocks == 0
                    ? std::string()
                    : StrCat(", ", wide.function, " on ", wide.thread_blocks, " thread blocks"),
                stream.thread_blocks == 0 ? std::string()
                                          : StrCat(", ", stream.function, " on ",
                                                   stream.thread_blocks, " thread blocks"));
}

void ShareWork(const AttentionHeads& heads, const AttentionSizes& sizes, int compute_units,
               AttentionConfig& config) {
  const int64_t group = heads.q_heads / heads.kv_heads;
  const int64_t tiles = CeilDiv(sizes.tokens * group, config.rows) + sizes.sequences;
  const int64_t splits = std::max<int64_t>(
      CeilDiv(sizes.blocks_max * heads.block_tokens, int64_t{heads.split_tokens}), 1);
  const int64_t resident =
      std::min(config.blocks_per_unit, kSharedOfUnit / (config.shared_bytes + kSharedOfBlock));
  config.thread_blocks = static_cast<unsigned>(
      std::min(compute_units * std::max<int64_t>(resident, 1), tiles * heads.kv_heads * splits));
  if (splits <= 1) return;
  // Query tokens of sequences that may be split.
  const int64_t tokens = std::min(
      sizes.tokens, sizes.sequences * std::max<int64_t>(kSplitTilesMax * config.rows / group, 1));
  const int64_t states = int64_t{heads.q_heads} * heads.parts * 2;
  const int64_t slot_bytes = (int64_t{heads.q_heads} * heads.values + states) * 4;
  config.slots_max = std::min(tokens * splits, kScratchMax / slot_bytes);
  config.partial_bytes = static_cast<size_t>(config.slots_max * heads.q_heads * heads.values * 4);
  // What follows is read by sixteen bytes.
  config.state_bytes = static_cast<size_t>(CeilDiv(config.slots_max * states * 4, 16) * 16);
  config.combine_blocks = static_cast<unsigned>(
      std::min(tokens * heads.q_heads * heads.parts, compute_units * kCombineBlocksPerUnit));
}

AttentionConfig ConfigureAttention(AttentionProducts products, const ops::Attention::Desc& desc,
                                   const AttentionSizes& sizes, int compute_units) {
  AttentionConfig config;
  ChooseKernel(products, desc, config);
  if (sizes.tokens == 0 || sizes.sequences == 0) return config;
  ChooseWide(products, desc, sizes, compute_units, config);
  ShareWork(HeadsOf(desc), sizes, compute_units, config);
  if (!ChooseCluster(products, desc, sizes, compute_units, config))
    ChooseStream(products, desc, sizes, compute_units, config);
  // Each warp of the kernel that streams joins splits that have no room elsewhere.
  if (products != AttentionProducts::kF32 && config.slots_max > 0) {
    const int64_t rows = int64_t{compute_units} * kStreamBlocksPerUnit * kStreamWarps * kStreamRows;
    config.kept_bytes = static_cast<size_t>(rows * desc.head_dim * 4);
  }
  return config;
}

AttentionSizes AsideSizes(const AttentionSizes& sizes) {
  const int64_t rows = std::min(sizes.tokens, sizes.sequences * limits::kDraftTokensMax);
  return {rows, rows, sizes.blocks_max};
}

AttentionConfig ConfigureAside(AttentionProducts products, const ops::Attention::Desc& desc,
                               const AttentionSizes& sizes, int compute_units) {
  AttentionConfig config;
  ChooseKernel(products, desc, config);
  if (sizes.tokens == 0 || sizes.sequences == 0) return config;
  ShareWork(HeadsOf(desc), AsideSizes(sizes), compute_units, config);
  return config;
}

ops::Support AttentionSupports(AttentionProducts products, const ops::Attention::Desc& desc,
                               const device::DeviceFacts& facts) {
  ops::Support support = ops::PlainAttentionSupports(desc, facts);
  if (!support.ok) return support;
  if (desc.head_dim > 256) {
    return ops::Support::No(StrCat("models with heads of ", desc.head_dim,
                                   " numbers do not run on CUDA, whose kernels take at most 256; "
                                   "use --device cpu or xpu"));
  }
  if (products == AttentionProducts::kF32) return support;
  if (ops::HasPositionTerms(desc))
    return ops::Support::No("knows neither ALiBi nor chunks nor queries that grow");
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
