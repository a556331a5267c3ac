#include "backend/xpu/attention/impls.h"

#include <algorithm>
#include <limits>

#include "backend/xpu/kernel_support.h"
#include "backend/xpu/launch.h"
#include "ops/attention.h"

namespace sluice::xpu {
namespace {

// Query, result and weights of a KV head's query heads are a work-item's own.
constexpr int kGroupMax = 16, kHeadDimMax = 256;

ops::Support Supports(const ops::Attention::Desc& desc, const device::DeviceFacts& facts) {
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

Status Run(device::Stream& stream, const ops::Attention::Desc& desc,
           const ops::Attention::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  const int items = ItemsFor(FactsOf(stream), 8);
  const std::string options = StrCat(
      "-D ITEMS=", items, " -D ACT=", ClName(desc.activation), " -D KV=", KvName(desc.kv.dtype),
      " -D SCALES=", ops::KvHasScales(desc.kv.dtype) ? 1 : 0, " -D D=", desc.head_dim,
      " -D GROUP=", desc.q_heads / desc.kv_heads, " -D CAP=", desc.soft_cap.has_value() ? 1 : 0);
  LaunchShape shape{{static_cast<size_t>(desc.kv_heads), static_cast<size_t>(args.q.dims[0]), 1},
                    static_cast<size_t>(items)};
  const int64_t table_tokens = std::min<int64_t>(
      args.block_table.dims[1] * desc.kv.kernel_block_tokens, std::numeric_limits<int32_t>::max());
  return Launch(stream, {"attention/any_f32_attention", "any_f32_attention"}, options, shape,
                args.q.data, RowStride(args.q), args.query_start.data, args.context.data,
                args.block_table.data, RowStride(args.block_table), args.kv.k.data, args.kv.v.data,
                args.kv.k_scale.data, args.kv.v_scale.data, args.out.data, RowStride(args.out),
                RowStride(args.kv.k), RowStride(args.kv.v), RowStride(args.kv.k_scale),
                RowStride(args.kv.v_scale), static_cast<int32_t>(args.context.dims[0]),
                static_cast<int32_t>(table_tokens), static_cast<int32_t>(args.kv.k.dims[0]),
                desc.kv.kernel_block_tokens, desc.causal ? 1 : 0, desc.window, ops::ScaleOf(desc),
                desc.soft_cap.value_or(0.0f));
}

}  // namespace

void RegisterAttention(ops::OpTable& table) {
  table.Add<ops::Attention>({"any_f32_attention", &Supports, &Run});
}

}  // namespace sluice::xpu
