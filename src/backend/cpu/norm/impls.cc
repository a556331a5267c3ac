#include "backend/cpu/norm/impls.h"

#include "backend/cpu/kernel_support.h"
#include "backend/cpu/norm/kernels.h"
#include "backend/cpu/parallel.h"
#include "ops/norm.h"

namespace sluice::cpu {
namespace {

using ops::Norm;
using ops::QkNorm;

template <Isa isa>
ops::Support NormSupports(const Norm::Desc& desc, const device::DeviceFacts& facts) {
  if (const ops::Support plain = ops::GivesPlainRows(desc); !plain.ok) return plain;
  const ops::Support support = NeedsIsaAndF32(isa, desc.activation, facts);
  return support.ok ? ops::RefNormSupports(desc, facts) : support;
}

template <const NormKernels& kernels>
Status RunNorm(device::Stream& stream, const Norm::Desc& desc, const Norm::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  const NormCall call = {.x = args.x.ptr<float>(),
                         .residual = args.residual.ptr<float>(),
                         .weight = args.weight.ptr<float>(),
                         .bias = args.bias.ptr<float>(),
                         .scale = args.scale.ptr<float>(),
                         .out = args.out.ptr<float>(),
                         .x_stride = args.x.strides[0],
                         .residual_stride = args.residual.strides[0],
                         .out_stride = args.out.strides[0],
                         .hidden = desc.hidden,
                         .eps = desc.eps,
                         .center = desc.kind == ops::NormKind::kLayer};
  ForRows(AsCpu(stream), args.x.dims[0], desc.hidden,
          [&](int64_t begin, int64_t end) { kernels.norm(call, begin, end); });
  return OkStatus();
}

template <Isa isa>
ops::Support QkNormSupports(const QkNorm::Desc& desc, const device::DeviceFacts& facts) {
  const ops::Support support = NeedsIsaAndF32(isa, desc.activation, facts);
  return support.ok ? ops::RefQkNormSupports(desc, facts) : support;
}

template <const NormKernels& kernels>
Status RunQkNorm(device::Stream& stream, const QkNorm::Desc& desc, const QkNorm::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  const QkNormCall call = {.qkv = args.qkv.ptr<float>(),
                           .q_weight = args.q_weight.ptr<float>(),
                           .k_weight = args.k_weight.ptr<float>(),
                           .stride = args.qkv.strides[0],
                           .q_heads = desc.q_heads,
                           .heads = desc.q_heads + desc.kv_heads,
                           .head_dim = desc.head_dim,
                           .eps = desc.eps};
  ForRows(AsCpu(stream), args.qkv.dims[0], int64_t{call.heads} * call.head_dim,
          [&](int64_t begin, int64_t end) { kernels.qk_norm(call, begin, end); });
  return OkStatus();
}

}  // namespace

void RegisterNorm(ops::OpTable& table) {
  table.Add<Norm>({"avx512_f32_norm", &NormSupports<Isa::kAvx512>, &RunNorm<kAvx512NormKernels>,
                   ops::Arithmetic::kF32});
  table.Add<Norm>({"avx2_f32_norm", &NormSupports<Isa::kAvx2>, &RunNorm<kAvx2NormKernels>,
                   ops::Arithmetic::kF32});
  table.Add<Norm>({.name = "ref_norm",
                   .supports = &ops::RefNormSupports,
                   .run = &ops::RefNorm,
                   .slow = &ops::PlainLoops<Norm>});

  table.Add<QkNorm>({"avx512_f32_qk_norm", &QkNormSupports<Isa::kAvx512>,
                     &RunQkNorm<kAvx512NormKernels>, ops::Arithmetic::kF32});
  table.Add<QkNorm>({"avx2_f32_qk_norm", &QkNormSupports<Isa::kAvx2>, &RunQkNorm<kAvx2NormKernels>,
                     ops::Arithmetic::kF32});
  table.Add<QkNorm>({.name = "ref_qk_norm",
                     .supports = &ops::RefQkNormSupports,
                     .run = &ops::RefQkNorm,
                     .slow = &ops::PlainLoops<QkNorm>});
}

}  // namespace sluice::cpu
