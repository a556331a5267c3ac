#include "backend/xpu/activation/impls.h"

#include "backend/xpu/kernel_support.h"
#include "backend/xpu/launch.h"
#include "ops/activation.h"

namespace sluice::xpu {
namespace {

constexpr const char* kProgram = "activation/any_f32_activation";

std::string Options(int items, DType activation) {
  return StrCat("-D ITEMS=", items, " -D PIECE=", kPieceElements, " -D ACT=", ClName(activation));
}

Status RunGated(device::Stream& stream, const ops::GatedActivation::Desc& desc,
                const ops::GatedActivation::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  const int items = ItemsFor(FactsOf(stream), 16);
  LaunchShape shape{{PiecesOf(desc.width), static_cast<size_t>(args.out.dims[0]), 1},
                    static_cast<size_t>(items)};
  return Launch(stream, {kProgram, "any_f32_gated_activation"},
                StrCat(Options(items, desc.activation), " -D KIND=", static_cast<int>(desc.kind)),
                shape, args.gate_up.data, RowStride(args.gate_up), args.out.data,
                RowStride(args.out), static_cast<int32_t>(desc.width));
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

}  // namespace

void RegisterActivation(ops::OpTable& table) {
  table.Add<ops::GatedActivation>(
      {"any_f32_gated_activation", &ops::RefGatedActivationSupports, &RunGated});
  table.Add<ops::SoftCap>({"any_f32_soft_cap", &ops::RefSoftCapSupports, &RunSoftCap});
}

}  // namespace sluice::xpu
