#include "backend/cuda/activation/impls.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "backend/cuda/activation/kind.h"
#include "backend/cuda/alignment.h"
#include "backend/cuda/by_type.h"
#include "base/check.h"
#include "ops/activation.h"
#include "ops/group_quant.h"

namespace sluice::cuda {
namespace {

using ops::GatedActivation;
using ops::GaussianTopK;
using ops::GroupQuant;
using ops::PlainActivation;
using ops::SoftCap;

ops::Support GatedActivationSupports(const GatedActivation::Desc& desc,
                                     const device::DeviceFacts& facts) {
  if (!KindOf(desc.kind)) return ops::Support::No(StrCat("has no ", Name(desc.kind)));
  return ops::RefGatedActivationSupports(desc, facts);
}

ops::Support PlainActivationSupports(const PlainActivation::Desc& desc,
                                     const device::DeviceFacts& facts) {
  const ops::Support support =
      GatedActivationSupports({desc.kind, desc.activation, desc.width}, facts);
  return support.ok ? ops::RefPlainActivationSupports(desc, facts) : support;
}

constexpr KernelByType kGatedActivation =
    SLUICE_KERNEL_BY_TYPE("any_f32_activation", "any_f32_gated_activation");
constexpr KernelByType kPlainActivation =
    SLUICE_KERNEL_BY_TYPE("any_f32_activation", "any_f32_plain_activation");
constexpr KernelByType kTopK =
    SLUICE_KERNEL_BY_TYPE("any_f32_activation", "any_f32_gaussian_top_k");
constexpr KernelByType kSoftCap = SLUICE_KERNEL_BY_TYPE("any_f32_activation", "any_f32_soft_cap");

LaunchShape ShapeFor(int64_t rows, int64_t columns) {
  LaunchShape shape;
  shape.grid[0] = BlocksFor(rows * BlocksFor(columns, 8), kActivationThreads);
  shape.block[0] = kActivationThreads;
  return shape;
}

Status RunGatedActivation(device::Stream& stream, const GatedActivation::Desc& desc,
                          const GatedActivation::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  const std::optional<ActivationKind> kind = KindOf(desc.kind);
  CHECK(kind.has_value(), Name(desc.kind));
  const bool up_too = desc.width * Info(desc.activation).bytes % 16 == 0;
  const bool wide = RowsBeginAt(args.gate_up, 16) && RowsBeginAt(args.out, 16) && up_too;
  const GatedActivationParams params = {.gate_up = args.gate_up.data,
                                        .out = args.out.data,
                                        .gate_up_stride = args.gate_up.strides[0],
                                        .out_stride = args.out.strides[0],
                                        .tokens = args.gate_up.dims[0],
                                        .width = desc.width,
                                        .gate_scale = desc.gate_scale,
                                        .out_scale = desc.out_scale,
                                        .kind = *kind,
                                        .wide = wide};
  return Launch(stream, kGatedActivation(desc.activation), ShapeFor(params.tokens, params.width),
                params);
}

Status RunPlainActivation(device::Stream& stream, const PlainActivation::Desc& desc,
                          const PlainActivation::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  const std::optional<ActivationKind> kind = KindOf(desc.kind);
  CHECK(kind.has_value(), Name(desc.kind));
  const PlainActivationParams params = {.x = args.x.data,
                                        .stride = args.x.strides[0],
                                        .tokens = args.x.dims[0],
                                        .width = desc.width,
                                        .kind = *kind,
                                        .wide = RowsBeginAt(args.x, 16)};
  return Launch(stream, kPlainActivation(desc.activation), ShapeFor(params.tokens, params.width),
                params);
}

Status RunSoftCap(device::Stream& stream, const SoftCap::Desc& desc, const SoftCap::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  const SoftCapParams params = {.x = args.x.data,
                                .stride = args.x.strides[0],
                                .rows = args.x.dims[0],
                                .columns = args.x.dims[1],
                                .cap = desc.cap,
                                .wide = RowsBeginAt(args.x, 16)};
  return Launch(stream, kSoftCap(desc.activation), ShapeFor(params.rows, params.columns), params);
}

Status RunTopK(device::Stream& stream, const GaussianTopK::Desc& desc,
               const GaussianTopK::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  const TopKParams params = {.x = args.x.data,
                             .stride = args.x.strides[0],
                             .width = desc.width,
                             .deviations = desc.deviations};
  LaunchShape shape;
  shape.grid[0] = static_cast<unsigned>(args.x.dims[0]);
  shape.block[0] = kTopKThreads;
  return Launch(stream, kTopK(desc.activation), shape, params);
}

constexpr KernelByType kGroupQuant =
    SLUICE_KERNEL_BY_TYPE("any_f32_group_quant", "any_f32_group_quant");
constexpr KernelByType kGateCodes =
    SLUICE_KERNEL_BY_TYPE("any_f32_group_quant", "any_f32_gate_codes");
constexpr int64_t kGroupQuantWidthMax = int64_t{1} << 24;

ops::Support GroupQuantSupports(const GroupQuant::Desc& desc, const device::DeviceFacts& facts) {
  if (const ops::Support support = ops::RefGroupQuantSupports(desc, facts); !support.ok)
    return support;
  if (!KindOf(desc.kind)) return ops::Support::No(StrCat("has no ", Name(desc.kind)));
  const bool power = (desc.group & (desc.group - 1)) == 0;
  if (!power || desc.group < 16 || desc.group > 256) {
    return ops::Support::No(
        StrCat("groups of ", desc.group, " elements; 16, 32, 64, 128 and 256 are known"));
  }
  if (desc.width > kGroupQuantWidthMax)
    return ops::Support::No(StrCat("rows of ", desc.width, "; up to ", kGroupQuantWidthMax));
  return ops::Support::Yes();
}

// What the kernel for gates of most models takes.
bool IsGateCodes(const GroupQuant::Desc& desc, const GroupQuantParams& p) {
  return desc.gated && desc.kind == ops::Activation::kSilu && desc.gate_scale == 1.0f &&
         desc.out_scale == 1.0f && desc.codes == DType::kF8E4M3 && !desc.ue8m0 &&
         desc.group == 128 && desc.width % 8 == 0 && p.wide != 0 && p.wide_codes != 0;
}

Status RunGroupQuant(device::Stream& stream, const GroupQuant::Desc& desc,
                     const GroupQuant::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  const std::optional<ActivationKind> kind = KindOf(desc.kind);
  CHECK(kind.has_value(), Name(desc.kind));
  const int64_t rows = args.x.dims[0];
  if (rows > std::numeric_limits<int>::max())
    return InvalidArgument(StrCat(GroupQuant::kName, ": ", rows, " rows are too many"));
  const bool up_too = !desc.gated || desc.width * Info(desc.activation).bytes % 16 == 0;
  const GroupQuantParams params = {
      .x = args.x.data,
      .counts = args.counts.ptr<int32_t>(),
      .codes = reinterpret_cast<uint8_t*>(args.codes.data),
      .scales = args.scales.data,
      .x_stride = args.x.strides[0],
      .codes_stride = args.codes.strides[0],
      .scales_stride = args.scales.strides[0],
      .of_part = desc.parts > 0 ? std::max<int64_t>(rows / desc.parts, 1) : rows,
      .width = static_cast<int32_t>(desc.width),
      .lanes = static_cast<int32_t>(desc.group / 8),
      .gate_scale = desc.gate_scale,
      .out_scale = desc.out_scale,
      .kind = *kind,
      .gated = desc.gated,
      .int8 = desc.codes == DType::kI8,
      .ue8m0 = desc.ue8m0,
      .wide = RowsBeginAt(args.x, 16) && up_too,
      .wide_codes = RowsBeginAt(args.codes, 8)};
  LaunchShape shape;
  shape.grid[0] = static_cast<unsigned>(rows);
  shape.grid[1] = BlocksFor(BlocksFor(desc.width, 8), kActivationThreads);
  shape.block[0] = kActivationThreads;
  const KernelByType& kernel = IsGateCodes(desc, params) ? kGateCodes : kGroupQuant;
  return Launch(stream, kernel(desc.activation), shape, params);
}

}  // namespace

void RegisterActivation(ops::OpTable& table) {
  table.Add<GatedActivation>({"any_f32_gated_activation", &GatedActivationSupports,
                              &RunGatedActivation, ops::Arithmetic::kF32});
  table.Add<GroupQuant>({"any_f32_per_token_group_quant", &GroupQuantSupports, &RunGroupQuant,
                         ops::Arithmetic::kF32});
  table.Add<PlainActivation>({"any_f32_plain_activation", &PlainActivationSupports,
                              &RunPlainActivation, ops::Arithmetic::kF32});
  table.Add<SoftCap>(
      {"any_f32_soft_cap", &ops::RefSoftCapSupports, &RunSoftCap, ops::Arithmetic::kF32});
  table.Add<GaussianTopK>(
      {"any_f32_gaussian_top_k", &ops::RefGaussianTopKSupports, &RunTopK, ops::Arithmetic::kF32});
}

}  // namespace sluice::cuda
