#include "backend/cuda/recurrent/impls.h"

#include "backend/cuda/by_type.h"
#include "backend/cuda/recurrent/config.h"
#include "backend/cuda/recurrent/params.h"
#include "base/check.h"
#include "ops/recurrent.h"

namespace sluice::cuda {
namespace {

using ops::GatedDelta;
using ops::ShortConv;

constexpr KernelByType kShortConv =
    SLUICE_KERNEL_BY_TYPE("any_f32_short_conv", "any_f32_short_conv");
constexpr KernelByType kShortConvState =
    SLUICE_KERNEL_BY_TYPE("any_f32_short_conv", "any_f32_short_conv_state");
constexpr KernelByType kGatedDelta8 =
    SLUICE_KERNEL_BY_TYPE("any_f32_gated_delta", "any_f32_gated_delta_8");
constexpr KernelByType kGatedDelta16 =
    SLUICE_KERNEL_BY_TYPE("any_f32_gated_delta", "any_f32_gated_delta_16");
constexpr KernelByType kGatedDelta32 =
    SLUICE_KERNEL_BY_TYPE("any_f32_gated_delta", "any_f32_gated_delta_32");
constexpr KernelByType kGatedDelta64 =
    SLUICE_KERNEL_BY_TYPE("any_f32_gated_delta", "any_f32_gated_delta_64");

const KernelByType& GatedDeltaKernel(int k_head_dim) {
  switch (GatedDeltaRows(k_head_dim)) {
    case 8:
      return kGatedDelta8;
    case 16:
      return kGatedDelta16;
    case 32:
      return kGatedDelta32;
    default:
      CHECK(GatedDeltaRows(k_head_dim) == 64, "no kernel for keys of ", k_head_dim);
      return kGatedDelta64;
  }
}

template <class Desc, class Args>
StateTableParams TableOf(const Desc& desc, const Args& args, int64_t rows) {
  return {.query_start = args.query_start.template ptr<int32_t>(),
          .context = args.context.template ptr<int32_t>(),
          .block_table = args.block_table.template ptr<int32_t>(),
          .table_stride = args.block_table.strides[0],
          .rows = rows,
          .blocks = args.state.dims[0],
          .block_stride = args.state.strides[0],
          .numbers = desc.numbers(),
          .sequences = static_cast<int32_t>(args.context.dims[0]),
          .table_width = static_cast<int32_t>(args.block_table.dims[1]),
          .block_tokens = desc.block_tokens,
          .states = desc.states};
}

Status RunShortConv(device::Stream& stream, const ShortConv::Desc& desc,
                    const ShortConv::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  const ShortConvParams params = {.table = TableOf(desc, args, args.x.dims[0]),
                                  .x = args.x.data,
                                  .weight = args.weight.ptr<float>(),
                                  .bias = desc.bias ? args.bias.ptr<float>() : nullptr,
                                  .state = args.state.ptr<float>(),
                                  .out = args.out.data,
                                  .x_stride = args.x.strides[0],
                                  .weight_stride = args.weight.strides[0],
                                  .out_stride = args.out.strides[0],
                                  .channels = desc.channels,
                                  .taps = desc.kernel,
                                  .gated = desc.gated};
  SLUICE_RETURN_IF_ERROR(Launch(stream, kShortConv(desc.activation),
                                ShortConvShape(args.x.dims[0], desc.channels), params));
  return Launch(stream, kShortConvState(desc.activation),
                ShortConvShape(args.context.dims[0], desc.channels), params);
}

Status RunGatedDelta(device::Stream& stream, const GatedDelta::Desc& desc,
                     const GatedDelta::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  const GatedDeltaParams params = {.table = TableOf(desc, args, args.qkv.dims[0]),
                                   .qkv = args.qkv.data,
                                   .ba = args.ba.data,
                                   .dt_bias = args.dt_bias.ptr<float>(),
                                   .a_log = args.a_log.ptr<float>(),
                                   .state = args.state.ptr<float>(),
                                   .out = args.out.data,
                                   .qkv_stride = args.qkv.strides[0],
                                   .ba_stride = args.ba.strides[0],
                                   .out_stride = args.out.strides[0],
                                   .k_heads = desc.k_heads,
                                   .v_heads = desc.v_heads,
                                   .k_head_dim = desc.k_head_dim,
                                   .v_head_dim = desc.v_head_dim};
  return Launch(stream, GatedDeltaKernel(desc.k_head_dim)(desc.activation),
                GatedDeltaShape(desc, args.context.dims[0]), params);
}

}  // namespace

void RegisterRecurrent(ops::OpTable& table) {
  table.Add<ShortConv>(
      {"any_f32_short_conv", &ShortConvSupports, &RunShortConv, ops::Arithmetic::kF32});
  table.Add<GatedDelta>(
      {"any_f32_gated_delta", &GatedDeltaSupports, &RunGatedDelta, ops::Arithmetic::kF32});
}

}  // namespace sluice::cuda
