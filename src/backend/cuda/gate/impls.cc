#include "backend/cuda/gate/impls.h"

#include "backend/cuda/alignment.h"
#include "backend/cuda/by_type.h"
#include "backend/cuda/gate/params.h"
#include "ops/gate.h"

namespace sluice::cuda {
namespace {

using ops::GatedNorm;
using ops::SigmoidGate;
using ops::SigmoidGateScaleAdd;

constexpr KernelByType kGatedNorm = SLUICE_KERNEL_BY_TYPE("any_f32_gate", "any_f32_gated_norm");
constexpr KernelByType kSigmoidGate = SLUICE_KERNEL_BY_TYPE("any_f32_gate", "any_f32_sigmoid_gate");

constexpr KernelByType kScaleAdd =
    SLUICE_KERNEL_BY_TYPE("any_f32_gate", "any_f32_sigmoid_gate_scale_add");
constexpr KernelId kF16ScaleAddToF32 = {"any_f32_gate",
                                        "any_f32_sigmoid_gate_scale_add_f16_to_f32"};

Status RunGatedNorm(device::Stream& stream, const GatedNorm::Desc& desc,
                    const GatedNorm::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  const GatedNormParams params = {.x = args.x.data,
                                  .gate = args.gate.data,
                                  .weight = desc.norm ? args.weight.ptr<float>() : nullptr,
                                  .out = args.out.data,
                                  .x_stride = args.x.strides[0],
                                  .gate_stride = args.gate.strides[0],
                                  .out_stride = args.out.strides[0],
                                  .tokens = args.x.dims[0],
                                  .weight_step = desc.weight_step(),
                                  .heads = desc.heads,
                                  .head_dim = desc.head_dim,
                                  .eps = desc.eps,
                                  .gate_first = desc.gate_first,
                                  .gate_scale = desc.gate_scale,
                                  .out_scale = desc.out_scale};
  LaunchShape shape;
  shape.grid[0] = BlocksFor(params.tokens * params.heads, kGatedNormWarps);
  shape.block[0] = kGatedNormWarps * 32;
  return Launch(stream, kGatedNorm(desc.activation), shape, params);
}

Status RunSigmoidGate(device::Stream& stream, const SigmoidGate::Desc& desc,
                      const SigmoidGate::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  const SigmoidGateParams params = {.x = args.x.data,
                                    .gate = args.gate.data,
                                    .x_stride = args.x.strides[0],
                                    .gate_stride = args.gate.strides[0],
                                    .tokens = args.x.dims[0],
                                    .width = desc.width,
                                    .wide = RowsBeginAt(args.x, 16) && RowsBeginAt(args.gate, 16)};
  LaunchShape shape;
  shape.grid[0] = BlocksFor(params.tokens * BlocksFor(desc.width, 8), kSigmoidGateThreads);
  shape.block[0] = kSigmoidGateThreads;
  return Launch(stream, kSigmoidGate(desc.activation), shape, params);
}

ops::Support ScaleAddSupports(const SigmoidGateScaleAdd::Desc& desc,
                              const device::DeviceFacts& facts) {
  if (desc.out != desc.activation && desc.activation != DType::kF16) {
    return ops::Support::No(StrCat("sums in F32 beside ", Name(desc.activation), " activations"));
  }
  return ops::RefSigmoidGateScaleAddSupports(desc, facts);
}

Status RunScaleAdd(device::Stream& stream, const SigmoidGateScaleAdd::Desc& desc,
                   const SigmoidGateScaleAdd::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  const ScaleAddParams params = {.x = args.x.data,
                                 .gate = args.gate.ptr<float>(),
                                 .residual = args.residual.data,
                                 .out = args.out.data,
                                 .x_stride = args.x.strides[0],
                                 .gate_stride = args.gate.strides[0],
                                 .residual_stride = args.residual.strides[0],
                                 .out_stride = args.out.strides[0],
                                 .tokens = args.x.dims[0],
                                 .width = desc.width,
                                 .wide = RowsBeginAt(args.x, 16) &&
                                         RowsBeginAt(args.residual, 16) &&
                                         RowsBeginAt(args.out, 16)};
  LaunchShape shape;
  shape.grid[0] = BlocksFor(params.tokens * BlocksFor(desc.width, 8), kSigmoidGateThreads);
  shape.block[0] = kSigmoidGateThreads;
  const KernelId kernel =
      desc.out != desc.activation ? kF16ScaleAddToF32 : kScaleAdd(desc.activation);
  return Launch(stream, kernel, shape, params);
}

}  // namespace

void RegisterGate(ops::OpTable& table) {
  table.Add<GatedNorm>(
      {"any_f32_gated_norm", &ops::RefGatedNormSupports, &RunGatedNorm, ops::Arithmetic::kF32});
  table.Add<SigmoidGate>({"any_f32_sigmoid_gate", &ops::RefSigmoidGateSupports, &RunSigmoidGate,
                          ops::Arithmetic::kF32});
  table.Add<SigmoidGateScaleAdd>(
      {"any_f32_sigmoid_gate_scale_add", &ScaleAddSupports, &RunScaleAdd, ops::Arithmetic::kF32});
}

}  // namespace sluice::cuda
