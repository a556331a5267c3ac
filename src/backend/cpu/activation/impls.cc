#include "backend/cpu/activation/impls.h"

#include "backend/cpu/activation/kernels.h"
#include "backend/cpu/kernel_support.h"
#include "backend/cpu/parallel.h"
#include "ops/activation.h"

namespace sluice::cpu {
namespace {

using ops::GatedActivation;
using ops::GaussianTopK;
using ops::PlainActivation;
using ops::SoftCap;

// The kernels of a kind. Without a default, so that a new kind does not compile before it is
// placed.
const ActivationKernels::Pair& KernelsOf(const ActivationKernels& kernels, ops::Activation kind) {
  switch (kind) {
    case ops::Activation::kSilu:
      return kernels.silu;
    case ops::Activation::kGeluTanh:
      return kernels.gelu_tanh;
    case ops::Activation::kGeluErf:
      return kernels.gelu_erf;
    case ops::Activation::kReluSquared:
      return kernels.relu_squared;
    case ops::Activation::kClampedSwiglu:
      return kernels.clamped_swiglu;
  }
  return kernels.silu;
}

template <Isa isa>
ops::Support GatedSupports(const GatedActivation::Desc& desc, const device::DeviceFacts& facts) {
  const ops::Support support = NeedsIsaAndF32(isa, desc.activation, facts);
  return support.ok ? ops::RefGatedActivationSupports(desc, facts) : support;
}

template <const ActivationKernels& kernels>
Status RunGated(device::Stream& stream, const GatedActivation::Desc& desc,
                const GatedActivation::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  const GatedCall call = {.gate_up = args.gate_up.ptr<float>(),
                          .out = args.out.ptr<float>(),
                          .in_stride = args.gate_up.strides[0],
                          .out_stride = args.out.strides[0],
                          .width = desc.width,
                          .gate_scale = desc.gate_scale,
                          .out_scale = desc.out_scale};
  const auto kernel = KernelsOf(kernels, desc.kind).gated;
  ForRows(AsCpu(stream), args.out.dims[0], 4 * desc.width,
          [&](int64_t begin, int64_t end) { kernel(call, begin, end); });
  return OkStatus();
}

template <Isa isa>
ops::Support PlainSupports(const PlainActivation::Desc& desc, const device::DeviceFacts& facts) {
  const ops::Support support = NeedsIsaAndF32(isa, desc.activation, facts);
  return support.ok ? ops::RefPlainActivationSupports(desc, facts) : support;
}

template <const ActivationKernels& kernels>
Status RunPlain(device::Stream& stream, const PlainActivation::Desc& desc,
                const PlainActivation::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  const PlainCall call = {
      .x = args.x.ptr<float>(), .stride = args.x.strides[0], .width = desc.width};
  const auto kernel = KernelsOf(kernels, desc.kind).plain;
  ForRows(AsCpu(stream), args.x.dims[0], 4 * desc.width,
          [&](int64_t begin, int64_t end) { kernel(call, begin, end); });
  return OkStatus();
}

template <Isa isa>
ops::Support SoftCapSupports(const SoftCap::Desc& desc, const device::DeviceFacts& facts) {
  const ops::Support support = NeedsIsaAndF32(isa, desc.activation, facts);
  return support.ok ? ops::RefSoftCapSupports(desc, facts) : support;
}

template <const ActivationKernels& kernels>
Status RunSoftCap(device::Stream& stream, const SoftCap::Desc& desc, const SoftCap::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  const SoftCapCall call = {.x = args.x.ptr<float>(),
                            .stride = args.x.strides[0],
                            .width = args.x.dims[1],
                            .cap = desc.cap};
  ForRows(AsCpu(stream), args.x.dims[0], 4 * call.width,
          [&](int64_t begin, int64_t end) { kernels.soft_cap(call, begin, end); });
  return OkStatus();
}

template <Isa isa>
ops::Support TopKSupports(const GaussianTopK::Desc& desc, const device::DeviceFacts& facts) {
  const ops::Support support = NeedsIsaAndF32(isa, desc.activation, facts);
  return support.ok ? ops::RefGaussianTopKSupports(desc, facts) : support;
}

template <const ActivationKernels& kernels>
Status RunTopK(device::Stream& stream, const GaussianTopK::Desc& desc,
               const GaussianTopK::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  const TopKCall call = {.x = args.x.ptr<float>(),
                         .stride = args.x.strides[0],
                         .width = desc.width,
                         .deviations = desc.deviations};
  ForRows(AsCpu(stream), args.x.dims[0], 4 * desc.width,
          [&](int64_t begin, int64_t end) { kernels.gaussian_top_k(call, begin, end); });
  return OkStatus();
}

}  // namespace

void RegisterActivation(ops::OpTable& table) {
  table.Add<GatedActivation>({"avx512_f32_gated_activation", &GatedSupports<Isa::kAvx512>,
                              &RunGated<kAvx512ActivationKernels>, ops::Arithmetic::kF32});
  table.Add<GatedActivation>({"avx2_f32_gated_activation", &GatedSupports<Isa::kAvx2>,
                              &RunGated<kAvx2ActivationKernels>, ops::Arithmetic::kF32});
  table.Add<GatedActivation>({.name = "ref_gated_activation",
                              .supports = &ops::RefGatedActivationSupports,
                              .run = &ops::RefGatedActivation,
                              .slow = &ops::PlainLoops<GatedActivation>});

  table.Add<PlainActivation>({"avx512_f32_plain_activation", &PlainSupports<Isa::kAvx512>,
                              &RunPlain<kAvx512ActivationKernels>, ops::Arithmetic::kF32});
  table.Add<PlainActivation>({"avx2_f32_plain_activation", &PlainSupports<Isa::kAvx2>,
                              &RunPlain<kAvx2ActivationKernels>, ops::Arithmetic::kF32});
  table.Add<PlainActivation>({.name = "ref_plain_activation",
                              .supports = &ops::RefPlainActivationSupports,
                              .run = &ops::RefPlainActivation,
                              .slow = &ops::PlainLoops<PlainActivation>});

  table.Add<SoftCap>({"avx512_f32_soft_cap", &SoftCapSupports<Isa::kAvx512>,
                      &RunSoftCap<kAvx512ActivationKernels>, ops::Arithmetic::kF32});
  table.Add<SoftCap>({"avx2_f32_soft_cap", &SoftCapSupports<Isa::kAvx2>,
                      &RunSoftCap<kAvx2ActivationKernels>, ops::Arithmetic::kF32});
  table.Add<SoftCap>({.name = "ref_soft_cap",
                      .supports = &ops::RefSoftCapSupports,
                      .run = &ops::RefSoftCap,
                      .slow = &ops::PlainLoops<SoftCap>});

  table.Add<GaussianTopK>({"avx512_f32_gaussian_top_k", &TopKSupports<Isa::kAvx512>,
                           &RunTopK<kAvx512ActivationKernels>, ops::Arithmetic::kF32});
  table.Add<GaussianTopK>({"avx2_f32_gaussian_top_k", &TopKSupports<Isa::kAvx2>,
                           &RunTopK<kAvx2ActivationKernels>, ops::Arithmetic::kF32});
  table.Add<GaussianTopK>({.name = "ref_gaussian_top_k",
                           .supports = &ops::RefGaussianTopKSupports,
                           .run = &ops::RefGaussianTopK,
                           .slow = &ops::PlainLoops<GaussianTopK>});
}

}  // namespace sluice::cpu
