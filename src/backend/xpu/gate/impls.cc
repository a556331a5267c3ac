#include "backend/xpu/gate/impls.h"

#include "backend/xpu/kernel_support.h"
#include "backend/xpu/launch.h"
#include "ops/gate.h"

namespace sluice::xpu {
namespace {

Status RunGatedNorm(device::Stream& stream, const ops::GatedNorm::Desc& desc,
                    const ops::GatedNorm::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  // A group of heads that are normed together is wide.
  const int items = ItemsFor(FactsOf(stream), desc.head_dim > 512 ? 64 : 8);
  const std::string options =
      StrCat("-D ITEMS=", items, " -D ACT=", ClName(desc.activation),
             " -D GATE_FIRST=", desc.gate_first ? 1 : 0, " -D NORM=", desc.norm ? 1 : 0);
  LaunchShape shape{{static_cast<size_t>(desc.heads), static_cast<size_t>(args.x.dims[0]), 1},
                    static_cast<size_t>(items)};
  return Launch(stream, {"gate/any_f32_gated_norm", "any_f32_gated_norm"}, options, shape,
                args.x.data, RowStride(args.x), args.gate.data, RowStride(args.gate),
                args.weight.data, args.out.data, RowStride(args.out), desc.head_dim, desc.eps,
                desc.gate_scale, desc.out_scale);
}

Status RunSigmoidGate(device::Stream& stream, const ops::SigmoidGate::Desc& desc,
                      const ops::SigmoidGate::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  const int items = ItemsFor(FactsOf(stream), 16);
  const std::string options =
      StrCat("-D ITEMS=", items, " -D PIECE=", kPieceElements, " -D ACT=", ClName(desc.activation));
  LaunchShape shape{{PiecesOf(desc.width), static_cast<size_t>(args.x.dims[0]), 1},
                    static_cast<size_t>(items)};
  return Launch(stream, {"gate/any_f32_sigmoid_gate", "any_f32_sigmoid_gate"}, options, shape,
                args.x.data, RowStride(args.x), args.gate.data, RowStride(args.gate),
                static_cast<int32_t>(desc.width));
}

ops::Support ScaleAddSupports(const ops::SigmoidGateScaleAdd::Desc& desc,
                              const device::DeviceFacts& facts) {
  if (desc.out != desc.activation)
    return ops::Support::No(StrCat("sums in F32 beside ", Name(desc.activation), " activations"));
  return ops::RefSigmoidGateScaleAddSupports(desc, facts);
}

Status RunScaleAdd(device::Stream& stream, const ops::SigmoidGateScaleAdd::Desc& desc,
                   const ops::SigmoidGateScaleAdd::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  const int items = ItemsFor(FactsOf(stream), 16);
  const std::string options =
      StrCat("-D ITEMS=", items, " -D PIECE=", kPieceElements, " -D ACT=", ClName(desc.activation));
  LaunchShape shape{{PiecesOf(desc.width), static_cast<size_t>(args.x.dims[0]), 1},
                    static_cast<size_t>(items)};
  return Launch(stream, {"gate/any_f32_sigmoid_gate_scale_add", "any_f32_sigmoid_gate_scale_add"},
                options, shape, args.x.data, RowStride(args.x), args.gate.data,
                RowStride(args.gate), args.residual.data, RowStride(args.residual), args.out.data,
                RowStride(args.out), static_cast<int32_t>(desc.width));
}

}  // namespace

void RegisterGate(ops::OpTable& table) {
  table.Add<ops::GatedNorm>(
      {"any_f32_gated_norm", &ops::RefGatedNormSupports, &RunGatedNorm, ops::Arithmetic::kF32});
  table.Add<ops::SigmoidGate>({"any_f32_sigmoid_gate", &ops::RefSigmoidGateSupports,
                               &RunSigmoidGate, ops::Arithmetic::kF32});
  table.Add<ops::SigmoidGateScaleAdd>(
      {"any_f32_sigmoid_gate_scale_add", &ScaleAddSupports, &RunScaleAdd, ops::Arithmetic::kF32});
}

}  // namespace sluice::xpu
