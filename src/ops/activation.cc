#include "ops/activation.h"

#include "ops/check_args.h"

namespace sluice::ops {

std::string_view Name(Activation kind) {
  switch (kind) {
    case Activation::kSilu:
      return "silu";
    case Activation::kGeluTanh:
      return "gelu_tanh";
    case Activation::kGeluErf:
      return "gelu_erf";
    case Activation::kReluSquared:
      return "relu_squared";
    case Activation::kClampedSwiglu:
      return "clamped_swiglu";
  }
  return "unknown";
}

std::string GatedActivation::Desc::ToString() const {
  std::string text = StrCat(Name(kind), " ", Name(activation), " ", width);
  if (gate_scale != 1.0f) text += StrCat(" gate times ", gate_scale);
  if (out_scale != 1.0f) text += StrCat(" times ", out_scale);
  return text;
}

std::string PlainActivation::Desc::ToString() const {
  return StrCat(Name(kind), " ", Name(activation), " ", width);
}

std::string SoftCap::Desc::ToString() const { return StrCat(Name(activation), " cap ", cap); }

std::string GaussianTopK::Desc::ToString() const {
  return StrCat(Name(activation), " ", width, " from ", deviations, " deviations");
}

Status CheckArgs(const GatedActivation::Desc& desc, const GatedActivation::Args& args) {
  const int64_t tokens = args.gate_up.rank == 2 ? args.gate_up.dims[0] : -1;
  ArgsChecker check(GatedActivation::kName, args.gate_up);
  check.Expect("gate_up", args.gate_up, desc.activation, {tokens, 2 * desc.width})
      .Expect("out", args.out, desc.activation, {tokens, desc.width})
      .ExpectApart("gate_up", args.gate_up, "out", args.out);
  return check.status();
}

Status CheckArgs(const PlainActivation::Desc& desc, const PlainActivation::Args& args) {
  ArgsChecker check(PlainActivation::kName, args.x);
  check.Expect("x", args.x, desc.activation, {-1, desc.width});
  return check.status();
}

Status CheckArgs(const SoftCap::Desc& desc, const SoftCap::Args& args) {
  ArgsChecker check(SoftCap::kName, args.x);
  check.Expect("x", args.x, desc.activation, {-1, -1});
  return check.status();
}

Status CheckArgs(const GaussianTopK::Desc& desc, const GaussianTopK::Args& args) {
  ArgsChecker check(GaussianTopK::kName, args.x);
  check.Expect("x", args.x, desc.activation, {-1, desc.width});
  return check.status();
}

}  // namespace sluice::ops
