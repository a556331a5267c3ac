#include <cmath>

#include "ops/element.h"
#include "ops/gate.h"
#include "ops/reference_support.h"

namespace sluice::ops {
namespace {

double Sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

}  // namespace

Support RefGatedNormSupports(const GatedNorm::Desc& desc, const device::DeviceFacts&) {
  if (desc.heads <= 0 || desc.head_dim <= 0)
    return Support::No("head counts and head_dim must be above 0");
  if (!(desc.eps > 0.0f) || !std::isfinite(desc.eps))
    return Support::No(StrCat("eps is ", desc.eps, ", it must be above 0"));
  if (!desc.norm && !desc.gate_first) return Support::No("without a norm the gate comes first");
  if (!std::isfinite(desc.gate_scale) || !std::isfinite(desc.out_scale))
    return Support::No(StrCat("scales are ", desc.gate_scale, " and ", desc.out_scale));
  return SupportsActivation(desc.activation);
}

Status RefGatedNorm(device::Stream&, const GatedNorm::Desc& desc, const GatedNorm::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  for (int64_t t = 0; t < args.x.dims[0]; ++t) {
    for (int head = 0; head < desc.heads; ++head) {
      const int64_t first = int64_t{head} * desc.head_dim;
      const auto weight_of = [&](int i) {
        return desc.norm ? args.weight.ptr<float>()[head * desc.weight_step() + i] : 1.0f;
      };
      const auto gate_of = [&](int i) {
        const double gate = double{desc.gate_scale} *
                            LoadElement(desc.activation, RowData(args.gate, t), first + i);
        return gate * Sigmoid(gate);
      };
      const auto x_of = [&](int i) {
        const double x = LoadElement(desc.activation, RowData(args.x, t), first + i);
        return desc.gate_first ? x * gate_of(i) : x;
      };
      double sum = 0.0;
      for (int i = 0; i < desc.head_dim; ++i) sum += x_of(i) * x_of(i);
      const double inverse = desc.norm ? 1.0 / std::sqrt(sum / desc.head_dim + desc.eps) : 1.0;
      for (int i = 0; i < desc.head_dim; ++i) {
        const double normed = x_of(i) * inverse * weight_of(i) * desc.out_scale;
        StoreElement(desc.activation, RowData(args.out, t), first + i,
                     static_cast<float>(desc.gate_first ? normed : normed * gate_of(i)));
      }
    }
  }
  return OkStatus();
}

Support RefSigmoidGateSupports(const SigmoidGate::Desc& desc, const device::DeviceFacts&) {
  if (desc.width <= 0) return Support::No(StrCat("width is ", desc.width));
  return SupportsActivation(desc.activation);
}

Status RefSigmoidGate(device::Stream&, const SigmoidGate::Desc& desc,
                      const SigmoidGate::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  for (int64_t t = 0; t < args.x.dims[0]; ++t) {
    for (int64_t i = 0; i < desc.width; ++i) {
      const double x = LoadElement(desc.activation, RowData(args.x, t), i);
      const double gate = LoadElement(desc.activation, RowData(args.gate, t), i);
      StoreElement(desc.activation, RowData(args.x, t), i, static_cast<float>(x * Sigmoid(gate)));
    }
  }
  return OkStatus();
}

Support RefSigmoidGateScaleAddSupports(const SigmoidGateScaleAdd::Desc& desc,
                                       const device::DeviceFacts&) {
  if (desc.width <= 0) return Support::No(StrCat("width is ", desc.width));
  if (desc.out != desc.activation && desc.out != DType::kF32)
    return Support::No(StrCat("sums in ", Name(desc.out), " beside ", Name(desc.activation)));
  return SupportsActivation(desc.activation);
}

Status RefSigmoidGateScaleAdd(device::Stream&, const SigmoidGateScaleAdd::Desc& desc,
                              const SigmoidGateScaleAdd::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  for (int64_t t = 0; t < args.x.dims[0]; ++t) {
    const double factor = Sigmoid(LoadElement(DType::kF32, RowData(args.gate, t), 0));
    for (int64_t i = 0; i < desc.width; ++i) {
      const double x = LoadElement(desc.activation, RowData(args.x, t), i);
      const double residual = LoadElement(desc.out, RowData(args.residual, t), i);
      StoreElement(desc.out, RowData(args.out, t), i, static_cast<float>(residual + factor * x));
    }
  }
  return OkStatus();
}

}  // namespace sluice::ops
