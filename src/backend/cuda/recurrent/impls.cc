#include "backend/cuda/recurrent/impls.h"

#include "backend/cuda/by_type.h"
#include "backend/cuda/recurrent/config.h"
#include "backend/cuda/recurrent/params.h"
#include "base/check.h"
#include "ops/recurrent.h"

namespace sluice::cuda {
namespace {

using ops::GatedDelta;
using ops::SelectiveScan;
using ops::ShortConv;
using ops::Ssd;

constexpr KernelByType kShortConv =
    SLUICE_KERNEL_BY_TYPE("any_f32_short_conv", "any_f32_short_conv");
constexpr KernelByType kShortConvState =
    SLUICE_KERNEL_BY_TYPE("any_f32_short_conv", "any_f32_short_conv_state");

constexpr KernelByType kScan16 =
    SLUICE_KERNEL_BY_TYPE("any_f32_selective_scan", "any_f32_selective_scan_16");
constexpr KernelByType kScan64 =
    SLUICE_KERNEL_BY_TYPE("any_f32_selective_scan", "any_f32_selective_scan_64");

// The kernel of a recurrence for so many rows of a lane.
struct KernelByRows {
  KernelByType rows8, rows16, rows32, rows64;
  const KernelByType& operator()(int k_head_dim) const {
    switch (StateRows(k_head_dim)) {
      case 8:
        return rows8;
      case 16:
        return rows16;
      case 32:
        return rows32;
      default:
        CHECK(StateRows(k_head_dim) == 64, "no kernel for keys of ", k_head_dim);
        return rows64;
    }
  }
};
#define SLUICE_KERNEL_BY_ROWS(name)                                                      \
  {                                                                                      \
    SLUICE_KERNEL_BY_TYPE(name, name "_8"), SLUICE_KERNEL_BY_TYPE(name, name "_16"),     \
        SLUICE_KERNEL_BY_TYPE(name, name "_32"), SLUICE_KERNEL_BY_TYPE(name, name "_64") \
  }
constexpr KernelByRows kGatedDelta = SLUICE_KERNEL_BY_ROWS("any_f32_gated_delta");
constexpr KernelByRows kSsd = SLUICE_KERNEL_BY_ROWS("any_f32_ssd");
#undef SLUICE_KERNEL_BY_ROWS

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
  return Launch(stream, kGatedDelta(desc.k_head_dim)(desc.activation),
                StateShape(desc.v_heads, desc.v_head_dim, args.context.dims[0]), params);
}

Status RunSsd(device::Stream& stream, const Ssd::Desc& desc, const Ssd::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  const SsdParams params = {.table = TableOf(desc, args, args.vkq.dims[0]),
                            .vkq = args.vkq.data,
                            .dt = desc.steps ? args.dt.data : nullptr,
                            .dt_bias = desc.steps ? args.dt_bias.ptr<float>() : nullptr,
                            .a = args.a.ptr<float>(),
                            .skip = desc.skip ? args.skip.ptr<float>() : nullptr,
                            .state = args.state.ptr<float>(),
                            .out = args.out.data,
                            .vkq_stride = args.vkq.strides[0],
                            .dt_stride = desc.steps ? args.dt.strides[0] : 0,
                            .out_stride = args.out.strides[0],
                            .dt_scale = desc.dt_scale,
                            .k_heads = desc.k_heads,
                            .v_heads = desc.v_heads,
                            .k_head_dim = desc.k_head_dim,
                            .v_head_dim = desc.v_head_dim};
  return Launch(stream, kSsd(desc.k_head_dim)(desc.activation),
                StateShape(desc.v_heads, desc.v_head_dim, args.context.dims[0]), params);
}

Status RunSelectiveScan(device::Stream& stream, const SelectiveScan::Desc& desc,
                        const SelectiveScan::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  const SelectiveScanParams params = {.table = TableOf(desc, args, args.x.dims[0]),
                                      .x = args.x.data,
                                      .dt = args.dt.data,
                                      .bc = args.bc.data,
                                      .dt_bias = args.dt_bias.ptr<float>(),
                                      .a = args.a.ptr<float>(),
                                      .skip = args.skip.ptr<float>(),
                                      .state = args.state.ptr<float>(),
                                      .out = args.out.data,
                                      .x_stride = args.x.strides[0],
                                      .dt_stride = args.dt.strides[0],
                                      .bc_stride = args.bc.strides[0],
                                      .a_stride = args.a.strides[0],
                                      .out_stride = args.out.strides[0],
                                      .channels = desc.channels,
                                      .state_size = desc.state_size};
  const KernelByType& kernel = ScanSize(desc.state_size) == 16 ? kScan16 : kScan64;
  return Launch(stream, kernel(desc.activation),
                SelectiveScanShape(desc.channels, args.context.dims[0]), params);
}

}  // namespace

void RegisterRecurrent(ops::OpTable& table) {
  table.Add<ShortConv>(
      {"any_f32_short_conv", &ShortConvSupports, &RunShortConv, ops::Arithmetic::kF32});
  table.Add<GatedDelta>(
      {"any_f32_gated_delta", &GatedDeltaSupports, &RunGatedDelta, ops::Arithmetic::kF32});
  table.Add<Ssd>({"any_f32_ssd", &SsdSupports, &RunSsd, ops::Arithmetic::kF32});
  table.Add<SelectiveScan>(
      {"any_f32_selective_scan", &SelectiveScanSupports, &RunSelectiveScan, ops::Arithmetic::kF32});
}

}  // namespace sluice::cuda
