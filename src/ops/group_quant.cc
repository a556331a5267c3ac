#include "ops/group_quant.h"

#include "ops/check_args.h"

namespace sluice::ops {

std::string GroupQuant::Desc::ToString() const {
  std::string text = StrCat(Name(activation), " ", width, " to ", Name(codes), " by ", group);
  if (ue8m0) text += " ue8m0";
  if (gated) text += StrCat(" of ", Name(kind));
  if (gate_scale != 1.0f) text += StrCat(" gate times ", gate_scale);
  if (out_scale != 1.0f) text += StrCat(" times ", out_scale);
  if (parts > 0) text += StrCat(" in ", parts, " parts");
  return text;
}

Status CheckArgs(const GroupQuant::Desc& desc, const GroupQuant::Args& args) {
  const int64_t rows = args.x.rank == 2 ? args.x.dims[0] : -1;
  ArgsChecker check(GroupQuant::kName, args.x);
  check.Expect("x", args.x, desc.activation, {rows, desc.gated ? 2 * desc.width : desc.width})
      .ExpectIf(desc.parts > 0, "counts", args.counts, DType::kI32, {desc.parts})
      .Expect("codes", args.codes, desc.codes, {rows, desc.width})
      .Expect("scales", args.scales, desc.ScaleDType(), {desc.groups(), rows})
      .ExpectApart("x", args.x, "codes", args.codes)
      .ExpectApart("x", args.x, "scales", args.scales)
      .ExpectApart("codes", args.codes, "scales", args.scales);
  if (check.ok() && desc.parts > 0 && rows % desc.parts != 0) {
    check.Fail(StrCat(rows, " rows are no ", desc.parts, " equal parts"));
  }
  return check.status();
}

}  // namespace sluice::ops
