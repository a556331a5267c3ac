#include "backend/xpu/activation/impls.h"

#include <optional>

#include "backend/xpu/kernel_support.h"
#include "backend/xpu/launch.h"
#include "base/check.h"
#include "ops/activation.h"

namespace sluice::xpu {
namespace {

constexpr const char* kProgram = "activation/any_f32_activation";

// The kernel's number of a kind; nothing for those that it lacks. Without a default, so that a new
// kind does not compile before it is placed.
std::optional<int> KindOf(ops::Activation kind) {
  switch (kind) {
    case ops::Activation::kSilu:
      return 0;
    case ops::Activation::kGeluTanh:
      return 1;
    case ops::Activation::kGeluErf:
      return 2;
    case ops::Activation::kReluSquared:
      return 3;
    case ops::Activation::kClampedSwiglu:
      return 4;
  }
  return std::nullopt;
}

ops::Support GatedSupports(const ops::GatedActivation::Desc& desc,
                           const device::DeviceFacts& facts) {
  if (!KindOf(desc.kind)) return ops::Support::No(StrCat("has no ", Name(desc.kind)));
  return ops::RefGatedActivationSupports(desc, facts);
}

std::string Options(int items, DType activation) {
  return StrCat("-D ITEMS=", items, " -D PIECE=", kPieceElements, " -D ACT=", ClName(activation));
}

Status RunGated(device::Stream& stream, const ops::GatedActivation::Desc& desc,
                const ops::GatedActivation::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  const std::optional<int> kind = KindOf(desc.kind);
  CHECK(kind.has_value(), Name(desc.kind));
  const int items = ItemsFor(FactsOf(stream), 16);
  LaunchShape shape{{PiecesOf(desc.width), static_cast<size_t>(args.out.dims[0]), 1},
                    static_cast<size_t>(items)};
  SLUICE_RETURN_IF_ERROR(Launch(stream, {kProgram, "any_f32_gated_activation"},
                                StrCat(Options(items, desc.activation), " -D KIND=", *kind), shape,
                                args.gate_up.data, RowStride(args.gate_up), args.out.data,
                                RowStride(args.out), static_cast<int32_t>(desc.width),
                                desc.gate_scale, desc.out_scale));
  // What makes a row again on its way into a product knows no scales.
  const bool scaled = desc.gate_scale != 1.0f || desc.out_scale != 1.0f;
  if (items == 1 && desc.activation == DType::kF32 && !scaled) {
    NoteMaker(stream, {.kind = RowMaker::Kind::kGated,
                       .source = args.gate_up.data,
                       .source_stride = RowStride(args.gate_up),
                       .activation = *kind,
                       .out = args.out.data,
                       .out_stride = RowStride(args.out),
                       .rows = args.out.dims[0],
                       .width = desc.width});
  }
  return OkStatus();
}

ops::Support PlainSupports(const ops::PlainActivation::Desc& desc,
                           const device::DeviceFacts& facts) {
  const ops::Support support = GatedSupports({desc.kind, desc.activation, desc.width}, facts);
  return support.ok ? ops::RefPlainActivationSupports(desc, facts) : support;
}

Status RunPlain(device::Stream& stream, const ops::PlainActivation::Desc& desc,
                const ops::PlainActivation::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  const std::optional<int> kind = KindOf(desc.kind);
  CHECK(kind.has_value(), Name(desc.kind));
  const int items = ItemsFor(FactsOf(stream), 16);
  LaunchShape shape{{PiecesOf(desc.width), static_cast<size_t>(args.x.dims[0]), 1},
                    static_cast<size_t>(items)};
  return Launch(stream, {kProgram, "any_f32_plain_activation"},
                StrCat(Options(items, desc.activation), " -D KIND=", *kind), shape, args.x.data,
                RowStride(args.x), static_cast<int32_t>(desc.width));
}

Status RunSoftCap(device::Stream& stream, const ops::SoftCap::Desc& desc,
                  const ops::SoftCap::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  const int items = ItemsFor(FactsOf(stream), 16);
  LaunchShape shape{{PiecesOf(args.x.dims[1]), static_cast<size_t>(args.x.dims[0]), 1},
                    static_cast<size_t>(items)};
  return Launch(stream, {kProgram, "any_f32_soft_cap"}, Options(items, desc.activation), shape,
                args.x.data, RowStride(args.x), static_cast<int32_t>(args.x.dims[1]), desc.cap);
}

Status RunTopK(device::Stream& stream, const ops::GaussianTopK::Desc& desc,
               const ops::GaussianTopK::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  const int items = ItemsFor(FactsOf(stream), 64);
  LaunchShape shape{{static_cast<size_t>(args.x.dims[0]), 1, 1}, static_cast<size_t>(items)};
  return Launch(stream, {kProgram, "any_f32_gaussian_top_k"}, Options(items, desc.activation),
                shape, args.x.data, RowStride(args.x), static_cast<int32_t>(desc.width),
                desc.deviations);
}

}  // namespace

void RegisterActivation(ops::OpTable& table) {
  table.Add<ops::GatedActivation>(
      {"any_f32_gated_activation", &GatedSupports, &RunGated, ops::Arithmetic::kF32});
  table.Add<ops::PlainActivation>(
      {"any_f32_plain_activation", &PlainSupports, &RunPlain, ops::Arithmetic::kF32});
  table.Add<ops::SoftCap>(
      {"any_f32_soft_cap", &ops::RefSoftCapSupports, &RunSoftCap, ops::Arithmetic::kF32});
  table.Add<ops::GaussianTopK>(
      {"any_f32_gaussian_top_k", &ops::RefGaussianTopKSupports, &RunTopK, ops::Arithmetic::kF32});
}

}  // namespace sluice::xpu
