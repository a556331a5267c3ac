#include "backend/xpu/attention/impls.h"

#include <algorithm>

#include "backend/xpu/attention/config.h"
#include "backend/xpu/kernel_support.h"
#include "backend/xpu/launch.h"
#include "ops/attention.h"
#include "ops/index_scores.h"
#include "ops/top_k.h"

namespace sluice::xpu {
namespace {

Status LaunchAttention(device::Stream& stream, const ops::Attention::Desc& desc,
                       const ops::Attention::Args& args, const AttentionConfig& config,
                       const ops::Tensor& lists = {}) {
  return Launch(
      stream, {"attention/any_f32_attention", "any_f32_attention"}, config.options, config.shape,
      args.q.data, RowStride(args.q), args.query_start.data, args.context.data,
      args.block_table.data, RowStride(args.block_table), args.kv.k.data, args.kv.v.data,
      args.kv.k_scale.data, args.kv.v_scale.data, args.out.data, RowStride(args.out),
      RowStride(args.kv.k), RowStride(args.kv.v), RowStride(args.kv.k_scale),
      RowStride(args.kv.v_scale), static_cast<int32_t>(args.context.dims[0]), config.table_tokens,
      static_cast<int32_t>(args.kv.k.dims[0]), desc.kv.kernel_block_tokens, desc.causal ? 1 : 0,
      desc.window, desc.chunked ? 1 : 0, ops::ScaleOf(desc), desc.soft_cap.value_or(0.0f),
      desc.growth_tokens, desc.growth_scale, args.sinks.data, args.slopes.data, lists.data,
      RowStride(lists), static_cast<int32_t>(lists.rank == 2 ? lists.dims[1] : 0), args.paths.data,
      RowStride(args.paths));
}

// A step without trees has no paths, whatever the descriptor allows.
template <class Desc, class Args>
Desc WithPaths(Desc desc, const Args& args) {
  desc.paths = !args.paths.empty();
  return desc;
}

Status Run(device::Stream& stream, const ops::Attention::Desc& desc,
           const ops::Attention::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  return LaunchAttention(stream, desc, args,
                         ConfigureAttention(WithPaths(desc, args), args.q.dims[0],
                                            args.block_table.dims[1], FactsOf(stream)));
}

ops::Support LatentSupports(const ops::LatentAttention::Desc& desc,
                            const device::DeviceFacts& facts) {
  if ((desc.key_width - desc.value_width) % 16 != 0)
    return ops::Support::No(StrCat(desc.key_width - desc.value_width,
                                   " numbers before the value, which are no multiple of 16"));
  return ops::RefLatentAttentionSupports(desc, facts);
}

Status RunLatent(device::Stream& stream, const ops::LatentAttention::Desc& desc,
                 const ops::LatentAttention::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  ops::Attention::Args whole = WholeRows(args);
  whole.out = args.out;
  return LaunchAttention(stream, WholeRows(desc), whole,
                         ConfigureLatentAttention(WithPaths(desc, args), args.q.dims[0],
                                                  args.block_table.dims[1], FactsOf(stream)),
                         args.listed);
}

Status RunIndexScores(device::Stream& stream, const ops::IndexScores::Desc& desc,
                      const ops::IndexScores::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  const int64_t positions = args.scores.dims[1];
  const AttentionConfig config = ConfigureIndexScores(desc, args.q.dims[0], positions,
                                                      args.block_table.dims[1], FactsOf(stream));
  return Launch(
      stream, {"attention/any_f32_index_scores", "any_f32_index_scores"}, config.options,
      config.shape, args.q.data, RowStride(args.q), args.weights.data, RowStride(args.weights),
      args.query_start.data, args.context.data, args.block_table.data, RowStride(args.block_table),
      args.kv.k.data, args.kv.k_scale.data, RowStride(args.kv.k), RowStride(args.kv.k_scale),
      args.scores.data, RowStride(args.scores), args.lengths.data,
      static_cast<int32_t>(args.first_row), static_cast<int32_t>(args.context.dims[0]),
      static_cast<int32_t>(std::min<int64_t>(positions, config.table_tokens)),
      static_cast<int32_t>(args.kv.k.dims[0]), desc.kv.kernel_block_tokens, desc.heads, desc.scale);
}

Status RunTopK(device::Stream& stream, const ops::TopK::Desc& desc, const ops::TopK::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  const AttentionConfig config = ConfigureTopK(args.scores.dims[0], FactsOf(stream));
  return Launch(stream, {"attention/any_f32_top_k", "any_f32_top_k"}, config.options, config.shape,
                args.scores.data, RowStride(args.scores), args.lengths.data, args.positions.data,
                RowStride(args.positions), static_cast<int32_t>(args.scores.dims[1]), desc.k);
}

}  // namespace

void RegisterAttention(ops::OpTable& table) {
  table.Add<ops::Attention>({"any_f32_attention", &AttentionSupports, &Run, ops::Arithmetic::kF32});
  table.Add<ops::LatentAttention>(
      {"any_f32_latent_attention", &LatentSupports, &RunLatent, ops::Arithmetic::kF32});
  table.Add<ops::IndexScores>({"any_f32_index_scores", &ops::RefIndexScoresSupports,
                               &RunIndexScores, ops::Arithmetic::kF32});
  table.Add<ops::TopK>({"any_f32_top_k", &ops::RefTopKSupports, &RunTopK, ops::Arithmetic::kF32});
}

}  // namespace sluice::xpu
