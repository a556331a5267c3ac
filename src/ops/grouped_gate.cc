#include "ops/grouped_gate.h"

#include "ops/expect_weight.h"

namespace sluice::ops {

GroupQuant::Desc GroupedGate::Desc::gate() const {
  return {.activation = products.each.activation,
          .width = width(),
          .gated = true,
          .kind = kind,
          .parts = 1};
}

std::string GroupedGate::Desc::ToString() const {
  return StrCat(products.ToString(), ", ", Name(kind), " as codes");
}

Status CheckArgs(const GroupedGate::Desc& desc, const GroupedGate::Args& args) {
  const int64_t places = args.codes.rank == 2 ? args.codes.dims[0] : -1;
  const Linear::Desc& each = desc.products.each;
  ArgsChecker check(GroupedGate::kName, args.x);
  check.Expect("x", args.x, each.activation, {args.tokens.empty() ? places : -1, each.k})
      .ExpectIf(!args.tokens.empty(), "tokens", args.tokens, DType::kI32, {places})
      .Expect("starts", args.starts, DType::kI32, {desc.products.experts + 1})
      .Expect("codes", args.codes, DType::kF8E4M3, {places, desc.width()})
      .Expect("scales", args.scales, DType::kF32, {desc.gate().groups(), places})
      .ExpectApart("x", args.x, "codes", args.codes)
      .ExpectApart("x", args.x, "scales", args.scales)
      .ExpectApart("starts", args.starts, "codes", args.codes)
      .ExpectApart("codes", args.codes, "scales", args.scales);
  ExpectRowWeight("of gates and what they open for", desc.products.Stacked(), args.weight, check);
  return check.status();
}

}  // namespace sluice::ops
