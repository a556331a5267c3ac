#include "backend/xpu/attention/config.h"

#include <algorithm>
#include <limits>

#include "backend/xpu/kernel_support.h"

namespace sluice::xpu {
namespace {

// Query, result and weights of a KV head's query heads are a work-item's own: so many heads, and
// numbers of them together.
constexpr int kGroupMax = 16, kHeadDimMax = 512, kGroupNumbersMax = 16 * 256;
constexpr int kItemsOnGpu = 8;
// Heads of latent attention that a work-item takes: rows are read once for all of them, and their
// queries and results are its own.
constexpr int kLatentGroupMax = 4;
// Positions that a work-group of index_scores has, a key of which is a work-item's own.
constexpr int kIndexPiece = 64, kIndexItemsOnGpu = 16;
constexpr int kTopKItemsOnGpu = 64;

int32_t TableTokens(int64_t blocks_max, const ops::KvDesc& kv) {
  return static_cast<int32_t>(
      std::min<int64_t>(blocks_max * kv.kernel_block_tokens, std::numeric_limits<int32_t>::max()));
}

}  // namespace

AttentionConfig ConfigureAttention(const ops::Attention::Desc& desc, int64_t tokens,
                                   int64_t blocks_max, const device::DeviceFacts& facts) {
  const int items = ItemsFor(facts, kItemsOnGpu);
  AttentionConfig config;
  config.options = StrCat(
      "-D ITEMS=", items, " -D ACT=", ClName(desc.activation), " -D KV=", KvName(desc.kv.dtype),
      " -D SCALES=", ops::KvHasScales(desc.kv.dtype) ? 1 : 0, " -D D=", desc.head_dim,
      " -D GROUP=", desc.q_heads / desc.kv_heads, " -D CAP=", desc.soft_cap.has_value() ? 1 : 0,
      " -D SINKS=", desc.sinks ? 1 : 0, " -D ALIBI=", desc.alibi ? 1 : 0,
      " -D GROWTH=", desc.growth_tokens > 0 ? 1 : 0, " -D ONE_KV=0 -D OUT_FROM=0 -D LISTED=0",
      " -D PATHS=", desc.paths ? 1 : 0);
  config.shape = {{static_cast<size_t>(desc.kv_heads), static_cast<size_t>(tokens), 1},
                  static_cast<size_t>(items)};
  config.table_tokens = TableTokens(blocks_max, desc.kv);
  return config;
}

AttentionConfig ConfigureLatentAttention(const ops::LatentAttention::Desc& desc, int64_t tokens,
                                         int64_t blocks_max, const device::DeviceFacts& facts) {
  int group = kLatentGroupMax;
  while (desc.heads % group != 0) --group;
  const int items = ItemsFor(facts, kItemsOnGpu);
  AttentionConfig config;
  config.options = StrCat(
      "-D ITEMS=", items, " -D ACT=", ClName(desc.activation), " -D KV=", KvName(desc.kv.dtype),
      " -D SCALES=", ops::KvHasScales(desc.kv.dtype) ? 1 : 0, " -D D=", desc.key_width,
      " -D GROUP=", group, " -D CAP=0 -D SINKS=0 -D ALIBI=0 -D GROWTH=0 -D ONE_KV=1",
      " -D OUT_FROM=", desc.key_width - desc.value_width,
      " -D LISTED=", desc.listed_max > 0 ? 1 : 0, " -D PATHS=", desc.paths ? 1 : 0);
  config.shape = {{static_cast<size_t>(desc.heads / group), static_cast<size_t>(tokens), 1},
                  static_cast<size_t>(items)};
  config.table_tokens = TableTokens(blocks_max, desc.kv);
  return config;
}

ops::Support AttentionSupports(const ops::Attention::Desc& desc, const device::DeviceFacts& facts) {
  const ops::Support support = ops::PlainAttentionSupports(desc, facts);
  if (!support.ok) return support;
  if (desc.head_dim > kHeadDimMax)
    return ops::Support::No(StrCat("head_dim is ", desc.head_dim, ", above ", kHeadDimMax));
  if (desc.q_heads / desc.kv_heads > kGroupMax) {
    return ops::Support::No(
        StrCat(desc.q_heads / desc.kv_heads, " query heads per KV head, above ", kGroupMax));
  }
  if (desc.q_heads / desc.kv_heads * desc.head_dim > kGroupNumbersMax) {
    return ops::Support::No(StrCat(desc.q_heads / desc.kv_heads, " query heads of ", desc.head_dim,
                                   " numbers per KV head, above ", kGroupNumbersMax, " in all"));
  }
  return support;
}

AttentionConfig ConfigureIndexScores(const ops::IndexScores::Desc& desc, int64_t rows,
                                     int64_t positions, int64_t blocks_max,
                                     const device::DeviceFacts& facts) {
  const int items = ItemsFor(facts, kIndexItemsOnGpu);
  AttentionConfig config;
  config.options = StrCat("-D ITEMS=", items, " -D ACT=", ClName(desc.activation),
                          " -D KV=", KvName(desc.kv.dtype),
                          " -D SCALES=", ops::KvHasScales(desc.kv.dtype) ? 1 : 0,
                          " -D D=", desc.head_dim, " -D PIECE=", kIndexPiece);
  const int64_t pieces = std::max<int64_t>(1, (positions + kIndexPiece - 1) / kIndexPiece);
  config.shape = {{static_cast<size_t>(pieces), static_cast<size_t>(rows), 1},
                  static_cast<size_t>(items)};
  config.table_tokens = TableTokens(blocks_max, desc.kv);
  return config;
}

AttentionConfig ConfigureTopK(int64_t rows, const device::DeviceFacts& facts) {
  const int items = ItemsFor(facts, kTopKItemsOnGpu);
  return {.options = StrCat("-D ITEMS=", items),
          .shape = {{static_cast<size_t>(rows), 1, 1}, static_cast<size_t>(items)}};
}

}  // namespace sluice::xpu
