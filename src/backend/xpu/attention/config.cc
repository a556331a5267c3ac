#include "backend/xpu/attention/config.h"

#include <algorithm>
#include <limits>

#include "backend/xpu/kernel_support.h"

namespace sluice::xpu {
namespace {

// Query, result and weights of a KV head's query heads are a work-item's own.
constexpr int kGroupMax = 16, kHeadDimMax = 256;
constexpr int kItemsOnGpu = 8;

}  // namespace

AttentionConfig ConfigureAttention(const ops::Attention::Desc& desc, int64_t tokens,
                                   int64_t blocks_max, const device::DeviceFacts& facts) {
  const int items = ItemsFor(facts, kItemsOnGpu);
  AttentionConfig config;
  config.options = StrCat(
      "-D ITEMS=", items, " -D ACT=", ClName(desc.activation), " -D KV=", KvName(desc.kv.dtype),
      " -D SCALES=", ops::KvHasScales(desc.kv.dtype) ? 1 : 0, " -D D=", desc.head_dim,
      " -D GROUP=", desc.q_heads / desc.kv_heads, " -D CAP=", desc.soft_cap.has_value() ? 1 : 0);
  config.shape = {{static_cast<size_t>(desc.kv_heads), static_cast<size_t>(tokens), 1},
                  static_cast<size_t>(items)};
  config.table_tokens = static_cast<int32_t>(std::min<int64_t>(
      blocks_max * desc.kv.kernel_block_tokens, std::numeric_limits<int32_t>::max()));
  return config;
}

ops::Support AttentionSupports(const ops::Attention::Desc& desc, const device::DeviceFacts& facts) {
  const ops::Support support = ops::RefAttentionSupports(desc, facts);
  if (!support.ok) return support;
  if (desc.head_dim > kHeadDimMax)
    return ops::Support::No(StrCat("head_dim is ", desc.head_dim, ", above ", kHeadDimMax));
  if (desc.q_heads / desc.kv_heads > kGroupMax) {
    return ops::Support::No(
        StrCat(desc.q_heads / desc.kv_heads, " query heads per KV head, above ", kGroupMax));
  }
  return support;
}

}  // namespace sluice::xpu
