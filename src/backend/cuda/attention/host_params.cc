#include "backend/cuda/attention/host_params.h"

#include "device/alignment.h"

namespace sluice::cuda {

using ops::Attention;

AttentionParams ParamsOf(const Attention::Desc& desc, const Attention::Args& args) {
  AttentionParams p = {};
  p.q = args.q.data;
  p.query_start = args.query_start.ptr<int32_t>();
  p.context = args.context.ptr<int32_t>();
  p.block_table = args.block_table.ptr<int32_t>();
  p.k = args.kv.k.data;
  p.v = args.kv.v.data;
  if (ops::KvHasScales(desc.kv.dtype)) {
    p.k_scale = args.kv.k_scale.ptr<float>();
    p.v_scale = args.kv.v_scale.ptr<float>();
    p.k_scale_stride = args.kv.k_scale.strides[0];
    p.v_scale_stride = args.kv.v_scale.strides[0];
  }
  if (desc.sinks) p.sinks = args.sinks.ptr<float>();
  p.out = args.out.data;
  p.q_stride = args.q.strides[0];
  p.out_stride = args.out.strides[0];
  p.table_stride = args.block_table.strides[0];
  p.k_stride = args.kv.k.strides[0];
  p.v_stride = args.kv.v.strides[0];
  p.tokens = static_cast<int32_t>(args.q.dims[0]);
  p.sequences = static_cast<int32_t>(args.context.dims[0]);
  p.kernel_blocks = static_cast<int32_t>(args.kv.k.dims[0]);
  p.blocks_max = static_cast<int32_t>(args.block_table.dims[1]);
  p.q_heads = desc.q_heads;
  p.kv_heads = desc.kv_heads;
  p.group = desc.q_heads / desc.kv_heads;
  p.head_dim = desc.head_dim;
  p.block_tokens = desc.kv.kernel_block_tokens;
  p.causal = desc.causal ? 1 : 0;
  p.window = desc.window;
  constexpr float kLog2E = 1.4426950408889634f;
  const float scale = ops::ScaleOf(desc);
  p.soft_cap = desc.soft_cap.value_or(0.0f);
  p.factor = (desc.soft_cap.has_value() ? p.soft_cap : scale) * kLog2E;
  p.inner_factor = desc.soft_cap.has_value() ? scale / p.soft_cap : 0.0f;
  if (!args.paths.empty()) {
    p.paths = args.paths.ptr<int32_t>();
    p.path_stride = args.paths.strides[0];
  }
  if (desc.alibi) p.slopes = args.slopes.ptr<float>();
  p.chunked = desc.chunked ? 1 : 0;
  p.growth_tokens = desc.growth_tokens;
  p.growth_scale = desc.growth_scale;
  p.activation = static_cast<int32_t>(desc.activation);
  p.kv = static_cast<int32_t>(desc.kv.dtype);
  return p;
}

size_t PlanBytes(int64_t sequences) {
  return device::AlignUp(static_cast<size_t>(ops::AttentionPlanNumbers(sequences)) * 4);
}

}  // namespace sluice::cuda
