#include "backend/xpu/norm/impls.h"

#include "backend/xpu/kernel_support.h"
#include "backend/xpu/launch.h"
#include "ops/norm.h"

namespace sluice::xpu {
namespace {

constexpr const char* kProgram = "norm/any_f32_norm";

ops::Support NormSupports(const ops::Norm::Desc& desc, const device::DeviceFacts& facts) {
  if (SumDType(desc) != desc.activation)
    return ops::Support::No(StrCat("sums in F32 beside ", Name(desc.activation), " activations"));
  if (const ops::Support plain = ops::GivesPlainRows(desc); !plain.ok) return plain;
  return ops::RefNormSupports(desc, facts);
}

Status RunNorm(device::Stream& stream, const ops::Norm::Desc& desc, const ops::Norm::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  const int items = ItemsFor(FactsOf(stream), 64);
  const std::string options = StrCat("-D ITEMS=", items, " -D ACT=", ClName(desc.activation),
                                     " -D LAYER=", static_cast<int>(desc.kind), " -D ADD=",
                                     desc.scaled ? 2
                                     : desc.add  ? 1
                                                 : 0,
                                     " -D BIAS=", desc.bias ? 1 : 0);
  LaunchShape shape{{static_cast<size_t>(args.x.dims[0]), 1, 1}, static_cast<size_t>(items)};
  SLUICE_RETURN_IF_ERROR(Launch(
      stream, {kProgram, "any_f32_norm"}, options, shape, args.x.data, RowStride(args.x),
      args.residual.data, RowStride(args.residual), args.weight.data, args.bias.data, args.out.data,
      RowStride(args.out), static_cast<int32_t>(desc.hidden), desc.eps, args.scale.data));
  const bool plain = desc.kind == ops::NormKind::kRms && !desc.add && !desc.bias;
  if (plain && items == 1 && desc.activation == DType::kF32 && args.out.data != args.x.data) {
    NoteMaker(stream, {.kind = RowMaker::Kind::kRmsNorm,
                       .source = args.x.data,
                       .source_stride = RowStride(args.x),
                       .norm_weight = args.weight.data,
                       .eps = desc.eps,
                       .out = args.out.data,
                       .out_stride = RowStride(args.out),
                       .rows = args.x.dims[0],
                       .width = desc.hidden});
  }
  return OkStatus();
}

Status RunQkNorm(device::Stream& stream, const ops::QkNorm::Desc& desc,
                 const ops::QkNorm::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  const int items = ItemsFor(FactsOf(stream), 8);
  const std::string options = StrCat("-D ITEMS=", items, " -D ACT=", ClName(desc.activation));
  LaunchShape shape{
      {static_cast<size_t>(desc.q_heads + desc.kv_heads), static_cast<size_t>(args.qkv.dims[0]), 1},
      static_cast<size_t>(items)};
  return Launch(stream, {kProgram, "any_f32_qk_norm"}, options, shape, args.qkv.data,
                RowStride(args.qkv), args.q_weight.data, args.k_weight.data, desc.q_heads,
                desc.head_dim, desc.eps);
}

}  // namespace

void RegisterNorm(ops::OpTable& table) {
  table.Add<ops::Norm>({"any_f32_norm", &NormSupports, &RunNorm, ops::Arithmetic::kF32});
  table.Add<ops::QkNorm>(
      {"any_f32_qk_norm", &ops::RefQkNormSupports, &RunQkNorm, ops::Arithmetic::kF32});
}

}  // namespace sluice::xpu
