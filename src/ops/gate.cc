#include "ops/gate.h"

#include "ops/check_args.h"

namespace sluice::ops {

std::string GatedNorm::Desc::ToString() const {
  std::string text = StrCat(Name(activation), " ", heads, " heads of ", head_dim);
  text += norm ? StrCat(" eps ", eps, gate_first ? " behind the gate" : "") : " without a norm";
  if (gate_scale != 1.0f) text += StrCat(" gate times ", gate_scale);
  if (out_scale != 1.0f) text += StrCat(" times ", out_scale);
  return text;
}

std::string SigmoidGate::Desc::ToString() const { return StrCat(Name(activation), " ", width); }

std::string SigmoidGateScaleAdd::Desc::ToString() const {
  return StrCat(Name(activation), " ", width, out == activation ? "" : " to F32");
}

Status CheckArgs(const GatedNorm::Desc& desc, const GatedNorm::Args& args) {
  const int64_t tokens = args.x.rank == 2 ? args.x.dims[0] : -1;
  const int64_t width = int64_t{desc.heads} * desc.head_dim;
  ArgsChecker check(GatedNorm::kName, args.x);
  check.Expect("x", args.x, desc.activation, {tokens, width})
      .Expect("gate", args.gate, desc.activation, {tokens, width})
      .ExpectIf(desc.norm, "weight", args.weight, DType::kF32, {desc.weights()})
      .Expect("out", args.out, desc.activation, {tokens, width})
      .ExpectApartOrSame("x", args.x, "out", args.out)
      .ExpectApart("gate", args.gate, "out", args.out);
  return check.status();
}

Status CheckArgs(const SigmoidGate::Desc& desc, const SigmoidGate::Args& args) {
  ArgsChecker check(SigmoidGate::kName, args.x);
  check.Expect("x", args.x, desc.activation, {-1, desc.width})
      .Expect("gate", args.gate, desc.activation,
              {args.x.rank == 2 ? args.x.dims[0] : -1, desc.width})
      .ExpectApart("x", args.x, "gate", args.gate);
  return check.status();
}

Status CheckArgs(const SigmoidGateScaleAdd::Desc& desc, const SigmoidGateScaleAdd::Args& args) {
  const int64_t tokens = args.x.rank == 2 ? args.x.dims[0] : -1;
  ArgsChecker check(SigmoidGateScaleAdd::kName, args.x);
  check.Expect("x", args.x, desc.activation, {tokens, desc.width})
      .Expect("gate", args.gate, DType::kF32, {tokens, 1})
      .Expect("residual", args.residual, desc.out, {tokens, desc.width})
      .Expect("out", args.out, desc.out, {tokens, desc.width})
      .ExpectApart("x", args.x, "out", args.out)
      .ExpectApart("gate", args.gate, "out", args.out)
      .ExpectApartOrSame("residual", args.residual, "out", args.out);
  return check.status();
}

}  // namespace sluice::ops
