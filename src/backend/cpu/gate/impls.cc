#include "backend/cpu/gate/impls.h"

#include "backend/cpu/gate/kernels.h"
#include "backend/cpu/kernel_support.h"
#include "backend/cpu/parallel.h"
#include "ops/gate.h"

namespace sluice::cpu {
namespace {

using ops::GatedNorm;
using ops::SigmoidGate;
using ops::SigmoidGateScaleAdd;

template <Isa isa>
ops::Support GatedNormSupports(const GatedNorm::Desc& desc, const device::DeviceFacts& facts) {
  const ops::Support support = NeedsIsaAndF32(isa, desc.activation, facts);
  return support.ok ? ops::RefGatedNormSupports(desc, facts) : support;
}

template <const GateKernels& kernels>
Status RunGatedNorm(device::Stream& stream, const GatedNorm::Desc& desc,
                    const GatedNorm::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  const GatedNormCall call = {.x = args.x.ptr<float>(),
                              .gate = args.gate.ptr<float>(),
                              .weight = desc.norm ? args.weight.ptr<float>() : nullptr,
                              .out = args.out.ptr<float>(),
                              .x_stride = args.x.strides[0],
                              .gate_stride = args.gate.strides[0],
                              .out_stride = args.out.strides[0],
                              .weight_step = desc.weight_step(),
                              .heads = desc.heads,
                              .head_dim = desc.head_dim,
                              .eps = desc.eps,
                              .gate_first = desc.gate_first,
                              .gate_scale = desc.gate_scale,
                              .out_scale = desc.out_scale};
  ForRows(AsCpu(stream), args.x.dims[0], 4 * args.x.dims[1],
          [&](int64_t begin, int64_t end) { kernels.gated_norm(call, begin, end); });
  return OkStatus();
}

template <Isa isa>
ops::Support SigmoidGateSupports(const SigmoidGate::Desc& desc, const device::DeviceFacts& facts) {
  const ops::Support support = NeedsIsaAndF32(isa, desc.activation, facts);
  return support.ok ? ops::RefSigmoidGateSupports(desc, facts) : support;
}

template <const GateKernels& kernels>
Status RunSigmoidGate(device::Stream& stream, const SigmoidGate::Desc& desc,
                      const SigmoidGate::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  const SigmoidGateCall call = {.x = args.x.ptr<float>(),
                                .gate = args.gate.ptr<float>(),
                                .x_stride = args.x.strides[0],
                                .gate_stride = args.gate.strides[0],
                                .width = desc.width};
  ForRows(AsCpu(stream), args.x.dims[0], 4 * desc.width,
          [&](int64_t begin, int64_t end) { kernels.sigmoid_gate(call, begin, end); });
  return OkStatus();
}

template <Isa isa>
ops::Support ScaleAddSupports(const SigmoidGateScaleAdd::Desc& desc,
                              const device::DeviceFacts& facts) {
  const ops::Support support = NeedsIsaAndF32(isa, desc.activation, facts);
  return support.ok ? ops::RefSigmoidGateScaleAddSupports(desc, facts) : support;
}

template <const GateKernels& kernels>
Status RunScaleAdd(device::Stream& stream, const SigmoidGateScaleAdd::Desc& desc,
                   const SigmoidGateScaleAdd::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  const ScaleAddCall call = {.x = args.x.ptr<float>(),
                             .gate = args.gate.ptr<float>(),
                             .residual = args.residual.ptr<float>(),
                             .out = args.out.ptr<float>(),
                             .x_stride = args.x.strides[0],
                             .gate_stride = args.gate.strides[0],
                             .residual_stride = args.residual.strides[0],
                             .out_stride = args.out.strides[0],
                             .width = desc.width};
  ForRows(AsCpu(stream), args.x.dims[0], 2 * desc.width,
          [&](int64_t begin, int64_t end) { kernels.scale_add(call, begin, end); });
  return OkStatus();
}

}  // namespace

void RegisterGate(ops::OpTable& table) {
  table.Add<GatedNorm>({"avx512_f32_gated_norm", &GatedNormSupports<Isa::kAvx512>,
                        &RunGatedNorm<kAvx512GateKernels>, ops::Arithmetic::kF32});
  table.Add<GatedNorm>({"avx2_f32_gated_norm", &GatedNormSupports<Isa::kAvx2>,
                        &RunGatedNorm<kAvx2GateKernels>, ops::Arithmetic::kF32});
  table.Add<GatedNorm>({.name = "ref_gated_norm",
                        .supports = &ops::RefGatedNormSupports,
                        .run = &ops::RefGatedNorm,
                        .slow = &ops::PlainLoops<GatedNorm>});

  table.Add<SigmoidGate>({"avx512_f32_sigmoid_gate", &SigmoidGateSupports<Isa::kAvx512>,
                          &RunSigmoidGate<kAvx512GateKernels>, ops::Arithmetic::kF32});
  table.Add<SigmoidGate>({"avx2_f32_sigmoid_gate", &SigmoidGateSupports<Isa::kAvx2>,
                          &RunSigmoidGate<kAvx2GateKernels>, ops::Arithmetic::kF32});
  table.Add<SigmoidGate>({.name = "ref_sigmoid_gate",
                          .supports = &ops::RefSigmoidGateSupports,
                          .run = &ops::RefSigmoidGate,
                          .slow = &ops::PlainLoops<SigmoidGate>});

  table.Add<SigmoidGateScaleAdd>({"avx512_f32_sigmoid_gate_scale_add",
                                  &ScaleAddSupports<Isa::kAvx512>, &RunScaleAdd<kAvx512GateKernels>,
                                  ops::Arithmetic::kF32});
  table.Add<SigmoidGateScaleAdd>({"avx2_f32_sigmoid_gate_scale_add", &ScaleAddSupports<Isa::kAvx2>,
                                  &RunScaleAdd<kAvx2GateKernels>, ops::Arithmetic::kF32});
  table.Add<SigmoidGateScaleAdd>({.name = "ref_sigmoid_gate_scale_add",
                                  .supports = &ops::RefSigmoidGateScaleAddSupports,
                                  .run = &ops::RefSigmoidGateScaleAdd,
                                  .slow = &ops::PlainLoops<SigmoidGateScaleAdd>});
}

}  // namespace sluice::cpu
