#include "ops/grouped_linear.h"

#include "ops/check_args.h"

namespace sluice::ops {

Linear::Desc GroupedLinear::Desc::Stacked() const {
  Linear::Desc stacked = each;
  stacked.n *= experts;
  return stacked;
}

std::string GroupedLinear::Desc::ToString() const {
  return StrCat(experts, by_columns ? " heads of " : " experts of ", each.ToString());
}

Status CheckArgs(const GroupedLinear::Desc& desc, const GroupedLinear::Args& args, LayoutId layout,
                 bool takes_codes) {
  const int64_t places = args.out.rank == 2 ? args.out.dims[0] : -1;
  const int64_t last = desc.by_columns ? desc.experts - 1 : 0;
  const bool coded = takes_codes && !args.x_scales.empty();
  ArgsChecker check(GroupedLinear::kName, args.x);
  check
      .Expect("x", args.x, coded ? DType::kF8E4M3 : desc.each.activation,
              {args.tokens.empty() ? places : -1, last * desc.x_step + desc.each.k})
      .ExpectIf(!args.tokens.empty(), "tokens", args.tokens, DType::kI32, {places})
      .ExpectIf(!desc.by_columns, "starts", args.starts, DType::kI32, {desc.experts + 1})
      .ExpectIf(desc.each.bias, "bias", args.bias, desc.each.activation,
                {desc.experts, desc.each.n})
      .Expect("out", args.out, OutDType(desc.each), {places, last * desc.out_step + desc.each.n})
      .ExpectApart("x", args.x, "out", args.out);
  if (!desc.by_columns) check.ExpectApart("starts", args.starts, "out", args.out);
  if (desc.by_columns && !args.tokens.empty()) check.Fail("tokens are given beside columns");
  if (coded && (desc.by_columns || !args.tokens.empty()))
    check.Fail("codes are given beside tokens or columns");
  if (coded && (args.x_scales.rank != 2 || args.x_scales.dims[1] != places))
    check.Fail(StrCat("codes have no scale for each of ", places, " places"));
  if (!check.ok()) return check.status();
  // The weight and its scales are those of the stack; the rows of x are checked above.
  Linear::Desc stack = desc.Stacked();
  stack.bias = false;
  Linear::Args stacked;
  stacked.x = args.x.Columns(0, desc.each.k).Rows(0, 0);
  stacked.weight = args.weight;
  stacked.out = args.out.Rows(0, 0);
  stacked.out.dims[1] = stack.n;
  stacked.out.strides[0] = stacked.out.dims[1];
  if (coded) stacked.x_scales = args.x_scales.Columns(0, 0);
  return CheckLinearArgs(stack, stacked, layout, takes_codes);
}

Support WholeRowGroups(const GroupedLinear::Desc& desc, int row_group) {
  if (desc.each.n % row_group == 0) return Support::Yes();
  return Support::No(
      StrCat("experts of ", desc.each.n, " rows, which is no multiple of ", row_group));
}

}  // namespace sluice::ops
