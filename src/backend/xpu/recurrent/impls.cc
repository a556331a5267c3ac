#include "backend/xpu/recurrent/impls.h"

#include "backend/xpu/kernel_support.h"
#include "backend/xpu/launch.h"
#include "backend/xpu/recurrent/config.h"
#include "ops/recurrent.h"

namespace sluice::xpu {
namespace {

constexpr const char* kConvProgram = "recurrent/any_f32_short_conv";

Status RunShortConv(device::Stream& stream, const ops::ShortConv::Desc& desc,
                    const ops::ShortConv::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  const int items = ItemsFor(FactsOf(stream), 64);
  const int64_t piece = items == 1 ? kPieceElements : 4 * items;
  const std::string options = StrCat(
      "-D ITEMS=", items, " -D PIECE=", piece, " -D ACT=", ClName(desc.activation),
      " -D TAPS=", desc.kernel, " -D GATED=", desc.gated ? 1 : 0, " -D BIAS=", desc.bias ? 1 : 0);
  const auto shape = [&](int64_t count) {
    return LaunchShape{
        {static_cast<size_t>((desc.channels + piece - 1) / piece), static_cast<size_t>(count), 1},
        static_cast<size_t>(items)};
  };
  const int32_t channels = static_cast<int32_t>(desc.channels);
  const int32_t sequences = static_cast<int32_t>(args.context.dims[0]);
  const int32_t table_width = static_cast<int32_t>(args.block_table.dims[1]);
  const int32_t blocks = static_cast<int32_t>(args.state.dims[0]);
  const int32_t rows = static_cast<int32_t>(args.x.dims[0]);
  SLUICE_RETURN_IF_ERROR(
      Launch(stream, {kConvProgram, "any_f32_short_conv"}, options, shape(rows), args.x.data,
             RowStride(args.x), args.weight.data, RowStride(args.weight), args.bias.data,
             args.state.data, RowStride(args.state), args.query_start.data, args.context.data,
             args.block_table.data, RowStride(args.block_table), args.out.data, RowStride(args.out),
             channels, sequences, table_width, desc.block_tokens, blocks, desc.states, rows));
  return Launch(stream, {kConvProgram, "any_f32_short_conv_state"}, options, shape(sequences),
                args.x.data, RowStride(args.x), args.state.data, RowStride(args.state),
                args.query_start.data, args.context.data, args.block_table.data,
                RowStride(args.block_table), channels, table_width, desc.block_tokens, blocks,
                desc.states, rows);
}

Status RunGatedDelta(device::Stream& stream, const ops::GatedDelta::Desc& desc,
                     const ops::GatedDelta::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  const StateConfig config = ConfigureGatedDelta(desc, args.context.dims[0], FactsOf(stream));
  return Launch(stream, {"recurrent/any_f32_gated_delta", "any_f32_gated_delta"}, config.options,
                config.shape, args.qkv.data, RowStride(args.qkv), args.ba.data, RowStride(args.ba),
                args.dt_bias.data, args.a_log.data, args.state.data, RowStride(args.state),
                args.query_start.data, args.context.data, args.block_table.data,
                RowStride(args.block_table), args.out.data, RowStride(args.out), desc.k_heads,
                desc.v_heads, desc.v_head_dim, static_cast<int32_t>(args.block_table.dims[1]),
                desc.block_tokens, static_cast<int32_t>(args.state.dims[0]), desc.states,
                static_cast<int32_t>(args.qkv.dims[0]));
}

Status RunSsd(device::Stream& stream, const ops::Ssd::Desc& desc, const ops::Ssd::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  const StateConfig config = ConfigureSsd(desc, args.context.dims[0], FactsOf(stream));
  return Launch(stream, {"recurrent/any_f32_ssd", "any_f32_ssd"}, config.options, config.shape,
                args.vkq.data, RowStride(args.vkq), args.dt.data, RowStride(args.dt),
                args.dt_bias.data, args.a.data, args.skip.data, args.state.data,
                RowStride(args.state), args.query_start.data, args.context.data,
                args.block_table.data, RowStride(args.block_table), args.out.data,
                RowStride(args.out), desc.k_heads, desc.v_heads, desc.v_head_dim,
                static_cast<int32_t>(args.block_table.dims[1]), desc.block_tokens,
                static_cast<int32_t>(args.state.dims[0]), desc.states,
                static_cast<int32_t>(args.vkq.dims[0]), desc.dt_scale);
}

Status RunSelectiveScan(device::Stream& stream, const ops::SelectiveScan::Desc& desc,
                        const ops::SelectiveScan::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  const StateConfig config = ConfigureSelectiveScan(desc, args.context.dims[0], FactsOf(stream));
  return Launch(
      stream, {"recurrent/any_f32_selective_scan", "any_f32_selective_scan"}, config.options,
      config.shape, args.x.data, RowStride(args.x), args.dt.data, RowStride(args.dt), args.bc.data,
      RowStride(args.bc), args.dt_bias.data, args.a.data, RowStride(args.a), args.skip.data,
      args.state.data, RowStride(args.state), args.query_start.data, args.context.data,
      args.block_table.data, RowStride(args.block_table), args.out.data, RowStride(args.out),
      static_cast<int32_t>(desc.channels), static_cast<int32_t>(args.block_table.dims[1]),
      desc.block_tokens, static_cast<int32_t>(args.state.dims[0]), desc.states,
      static_cast<int32_t>(args.x.dims[0]));
}

}  // namespace

void RegisterRecurrent(ops::OpTable& table) {
  table.Add<ops::ShortConv>(
      {"any_f32_short_conv", &ops::RefShortConvSupports, &RunShortConv, ops::Arithmetic::kF32});
  table.Add<ops::GatedDelta>(
      {"any_f32_gated_delta", &GatedDeltaSupports, &RunGatedDelta, ops::Arithmetic::kF32});
  table.Add<ops::Ssd>({"any_f32_ssd", &SsdSupports, &RunSsd, ops::Arithmetic::kF32});
  table.Add<ops::SelectiveScan>(
      {"any_f32_selective_scan", &SelectiveScanSupports, &RunSelectiveScan, ops::Arithmetic::kF32});
}

}  // namespace sluice::xpu
