#include "ops/grouped_linear.h"

#include "ops/check_args.h"

namespace sluice::ops {

Linear::Desc GroupedLinear::Desc::Stacked() const {
  Linear::Desc stacked = each;
  stacked.n *= experts;
  return stacked;
}

std::string GroupedLinear::Desc::ToString() const {
  return StrCat(experts, " experts of ", each.ToString());
}

Status CheckArgs(const GroupedLinear::Desc& desc, const GroupedLinear::Args& args,
                 LayoutId layout) {
  const int64_t places = args.out.rank == 2 ? args.out.dims[0] : -1;
  ArgsChecker check(GroupedLinear::kName, args.x);
  check.Expect("x", args.x, desc.each.activation, {args.tokens.empty() ? places : -1, desc.each.k})
      .ExpectIf(!args.tokens.empty(), "tokens", args.tokens, DType::kI32, {places})
      .Expect("starts", args.starts, DType::kI32, {desc.experts + 1})
      .Expect("out", args.out, OutDType(desc.each), {places, desc.each.n})
      .ExpectApart("x", args.x, "out", args.out)
      .ExpectApart("starts", args.starts, "out", args.out);
  if (!check.ok()) return check.status();
  // The weight and its scales are those of the stack; the rows of x are checked above.
  Linear::Args stacked;
  stacked.x = args.x.Rows(0, 0);
  stacked.weight = args.weight;
  stacked.out = args.out.Rows(0, 0);
  stacked.out.dims[1] = desc.Stacked().n;
  stacked.out.strides[0] = stacked.out.dims[1];
  return CheckLinearArgs(desc.Stacked(), stacked, layout);
}

Support WholeRowGroups(const GroupedLinear::Desc& desc, int row_group) {
  if (desc.each.n % row_group == 0) return Support::Yes();
  return Support::No(
      StrCat("experts of ", desc.each.n, " rows, which is no multiple of ", row_group));
}

}  // namespace sluice::ops
