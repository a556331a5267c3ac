#include <cmath>

#include "ops/activation.h"
#include "ops/element.h"
#include "ops/reference_support.h"

namespace sluice::ops {
namespace {

// Without the cancellation of 1 + tanh and 1 + erf near -1.
double Activate(Activation kind, double x) {
  constexpr double kTwoSqrt2OverPi = 1.59576912160573071176;
  constexpr double kSqrtHalf = 0.70710678118654752440;
  switch (kind) {
    case Activation::kSilu:
      return x / (1.0 + std::exp(-x));
    case Activation::kGeluTanh:
      return x / (1.0 + std::exp(-kTwoSqrt2OverPi * (x + 0.044715 * x * x * x)));
    case Activation::kGeluErf:
      return 0.5 * x * std::erfc(-x * kSqrtHalf);
    case Activation::kReluSquared:
      return x < 0.0 ? 0.0 : x * x;
    case Activation::kClampedSwiglu:
      break;
  }
  return x;
}

double Gate(Activation kind, double gate, double up) {
  if (kind != Activation::kClampedSwiglu) return Activate(kind, gate) * up;
  const double limit = kSwigluLimit;
  const double clamped = gate > limit ? limit : gate;
  const double other = up > limit ? limit : up < -limit ? -limit : up;
  return clamped / (1.0 + std::exp(-double{kSwigluSlope} * clamped)) * (other + 1.0);
}

}  // namespace

Support RefGatedActivationSupports(const GatedActivation::Desc& desc, const device::DeviceFacts&) {
  if (Support plain = SupportsActivation(desc.activation); !plain.ok) return plain;
  if (desc.width <= 0) return Support::No(StrCat("width is ", desc.width));
  if (!std::isfinite(desc.gate_scale) || !std::isfinite(desc.out_scale))
    return Support::No(StrCat("scales are ", desc.gate_scale, " and ", desc.out_scale));
  return Support::Yes();
}

Status RefGatedActivation(device::Stream&, const GatedActivation::Desc& desc,
                          const GatedActivation::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  for (int64_t t = 0; t < args.gate_up.dims[0]; ++t) {
    const std::byte* row = RowData(args.gate_up, t);
    for (int64_t i = 0; i < desc.width; ++i) {
      const double gate = double{desc.gate_scale} * LoadElement(desc.activation, row, i);
      const float up = LoadElement(desc.activation, row, desc.width + i);
      StoreElement(desc.activation, RowData(args.out, t), i,
                   static_cast<float>(desc.out_scale * Gate(desc.kind, gate, up)));
    }
  }
  return OkStatus();
}

Support RefPlainActivationSupports(const PlainActivation::Desc& desc,
                                   const device::DeviceFacts& facts) {
  if (desc.kind == Activation::kClampedSwiglu)
    return Support::No(StrCat(Name(desc.kind), " needs a gate"));
  return RefGatedActivationSupports({desc.kind, desc.activation, desc.width}, facts);
}

Status RefPlainActivation(device::Stream&, const PlainActivation::Desc& desc,
                          const PlainActivation::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  for (int64_t t = 0; t < args.x.dims[0]; ++t) {
    std::byte* row = RowData(args.x, t);
    for (int64_t i = 0; i < desc.width; ++i) {
      const float x = LoadElement(desc.activation, row, i);
      StoreElement(desc.activation, row, i, static_cast<float>(Activate(desc.kind, x)));
    }
  }
  return OkStatus();
}

Support RefSoftCapSupports(const SoftCap::Desc& desc, const device::DeviceFacts&) {
  if (Support plain = SupportsActivation(desc.activation); !plain.ok) return plain;
  if (!(desc.cap > 0.0f) || !std::isfinite(desc.cap))
    return Support::No(StrCat("cap is ", desc.cap, ", it must be above 0"));
  return Support::Yes();
}

Status RefSoftCap(device::Stream&, const SoftCap::Desc& desc, const SoftCap::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  const double cap = desc.cap;
  for (int64_t t = 0; t < args.x.dims[0]; ++t) {
    std::byte* row = RowData(args.x, t);
    for (int64_t i = 0; i < args.x.dims[1]; ++i) {
      const double x = LoadElement(desc.activation, row, i);
      StoreElement(desc.activation, row, i, static_cast<float>(cap * std::tanh(x / cap)));
    }
  }
  return OkStatus();
}

Support RefGaussianTopKSupports(const GaussianTopK::Desc& desc, const device::DeviceFacts&) {
  if (Support plain = SupportsActivation(desc.activation); !plain.ok) return plain;
  if (desc.width <= 0) return Support::No(StrCat("width is ", desc.width));
  if (!std::isfinite(desc.deviations)) return Support::No("the cutoff is not finite");
  return Support::Yes();
}

Status RefGaussianTopK(device::Stream&, const GaussianTopK::Desc& desc,
                       const GaussianTopK::Args& args) {
  SLUICE_RETURN_IF_ERROR(CheckArgs(desc, args));
  const auto width = static_cast<double>(desc.width);
  for (int64_t t = 0; t < args.x.dims[0]; ++t) {
    std::byte* row = RowData(args.x, t);
    double sum = 0.0, squares = 0.0;
    for (int64_t i = 0; i < desc.width; ++i) sum += LoadElement(desc.activation, row, i);
    for (int64_t i = 0; i < desc.width; ++i) {
      const double centered = LoadElement(desc.activation, row, i) - sum / width;
      squares += centered * centered;
    }
    const double cutoff = sum / width + desc.deviations * std::sqrt(squares / width);
    for (int64_t i = 0; i < desc.width; ++i) {
      const double above = LoadElement(desc.activation, row, i) - cutoff;
      StoreElement(desc.activation, row, i, static_cast<float>(above < 0.0 ? 0.0 : above));
    }
  }
  return OkStatus();
}

}  // namespace sluice::ops
