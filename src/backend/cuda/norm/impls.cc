#include "backend/cuda/norm/impls.h"

#include "backend/cuda/alignment.h"
#include "backend/cuda/by_type.h"
#include "backend/cuda/norm/config.h"
#include "backend/cuda/norm/params.h"
#include "ops/norm.h"

namespace sluice::cuda {
namespace {

using ops::Norm;
using ops::QkNorm;

constexpr KernelByType kNorm = SLUICE_KERNEL_BY_TYPE("any_f32_norm", "any_f32_norm");
constexpr KernelByType kNormCodes = SLUICE_KERNEL_BY_TYPE("any_f32_norm", "any_f32_norm_codes");
constexpr KernelId kF16NormOfF32 = {"any_f32_norm", "any_f32_norm_f16_of_f32"};
constexpr KernelId kF16NormCodesOfF32 = {"any_f32_norm", "any_f32_norm_codes_f16_of_f32"};
constexpr KernelByType kQkNorm = SLUICE_KERNEL_BY_TYPE("any_f32_qk_norm", "any_f32_qk_norm");

ops::Support NormSupports(const Norm::Desc& desc, const device::DeviceFacts& facts) {
  if (SumDType(desc) != desc.activation && desc.activation != DType::kF16) {
    return ops::Support::No(StrCat("sums in F32 beside ", Name(desc.activation), " activations"));
  }
  return ops::RefNormSupports(desc, facts);
}

KernelId KernelOf(const Norm::Desc& desc) {
  const bool coded = desc.form != ops::RowForm::kPlain;
  if (SumDType(desc) != desc.activation) return coded ? kF16NormCodesOfF32 : kF16NormOfF32;
  return coded ? kNormCodes(desc.activation) : kNorm(desc.activation);
}

Status RunNorm(device::Stream& stream, const Norm::Desc& desc, const Norm::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  const bool wide =
      RowsBeginAt(args.x, 16) && RowsBeginAt(args.residual, 16) && RowsBeginAt(args.out, 16);
  const ops::Tensor& sums = desc.add ? args.residual : args.x;
  const NormParams params = {
      .added = desc.add ? args.x.data : nullptr,
      .sums = sums.data,
      .weight = args.weight.ptr<float>(),
      .bias = args.bias.ptr<float>(),
      .scale = args.scale.ptr<float>(),
      .out = args.out.data,
      .codes = reinterpret_cast<uint8_t*>(args.codes.data),
      .code_scales = args.code_scales.ptr<float>(),
      .added_stride = args.x.strides[0],
      .sums_stride = sums.strides[0],
      .out_stride = args.out.strides[0],
      .codes_stride = args.codes.strides[0],
      .code_scales_stride = args.code_scales.strides[0],
      .hidden = desc.hidden,
      .eps = desc.eps,
      .center = desc.kind == ops::NormKind::kLayer,
      .wide = wide,
      .wide_weights = RowsBeginAt(args.weight, 16) && RowsBeginAt(args.bias, 16),
      .wide_codes = RowsBeginAt(args.codes, 8)};
  return Launch(stream, KernelOf(desc), NormShape(args.x.dims[0], desc.hidden), params);
}

Status RunQkNorm(device::Stream& stream, const QkNorm::Desc& desc, const QkNorm::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  const QkNormParams params = {.qkv = args.qkv.data,
                               .q_weight = args.q_weight.ptr<float>(),
                               .k_weight = args.k_weight.ptr<float>(),
                               .stride = args.qkv.strides[0],
                               .tokens = args.qkv.dims[0],
                               .q_heads = desc.q_heads,
                               .heads = desc.q_heads + desc.kv_heads,
                               .head_dim = desc.head_dim,
                               .eps = desc.eps};
  LaunchShape shape;
  shape.grid[0] = BlocksFor(params.tokens * params.heads, kQkNormWarps);
  shape.block[0] = kQkNormWarps * 32;
  return Launch(stream, kQkNorm(desc.activation), shape, params);
}

}  // namespace

void RegisterNorm(ops::OpTable& table) {
  table.Add<Norm>({"any_f32_norm", &NormSupports, &RunNorm, ops::Arithmetic::kF32});
  table.Add<QkNorm>(
      {"any_f32_qk_norm", &ops::RefQkNormSupports, &RunQkNorm, ops::Arithmetic::kF32});
}

}  // namespace sluice::cuda
