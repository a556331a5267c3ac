#include "backend/xpu/attention/impls.h"

#include "backend/xpu/attention/config.h"
#include "backend/xpu/kernel_support.h"
#include "backend/xpu/launch.h"
#include "ops/attention.h"

namespace sluice::xpu {
namespace {

Status Run(device::Stream& stream, const ops::Attention::Desc& desc,
           const ops::Attention::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  const AttentionConfig config =
      ConfigureAttention(desc, args.q.dims[0], args.block_table.dims[1], FactsOf(stream));
  return Launch(stream, {"attention/any_f32_attention", "any_f32_attention"}, config.options,
                config.shape, args.q.data, RowStride(args.q), args.query_start.data,
                args.context.data, args.block_table.data, RowStride(args.block_table),
                args.kv.k.data, args.kv.v.data, args.kv.k_scale.data, args.kv.v_scale.data,
                args.out.data, RowStride(args.out), RowStride(args.kv.k), RowStride(args.kv.v),
                RowStride(args.kv.k_scale), RowStride(args.kv.v_scale),
                static_cast<int32_t>(args.context.dims[0]), config.table_tokens,
                static_cast<int32_t>(args.kv.k.dims[0]), desc.kv.kernel_block_tokens,
                desc.causal ? 1 : 0, desc.window, ops::ScaleOf(desc), desc.soft_cap.value_or(0.0f));
}

}  // namespace

void RegisterAttention(ops::OpTable& table) {
  table.Add<ops::Attention>({"any_f32_attention", &AttentionSupports, &Run, ops::Arithmetic::kF32});
}

}  // namespace sluice::xpu
