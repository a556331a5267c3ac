#include "ops/norm.h"

#include "ops/check_args.h"

namespace sluice::ops {

std::string Norm::Desc::ToString() const {
  const char* const kinds[] = {"rms ", "layer ", "none "};
  return StrCat(kinds[static_cast<size_t>(kind)], Name(activation), " ", hidden, " eps ", eps,
                add ? " +add" : "", scaled ? " *scale" : "", bias ? " +bias" : "",
                f32_residual ? " of F32 sums" : "",
                form == RowForm::kPlain   ? ""
                : form == RowForm::kCodes ? " to codes"
                                          : " and codes");
}

Support GivesPlainRows(const Norm::Desc& desc) {
  return desc.form == RowForm::kPlain ? Support::Yes() : Support::No("rows as codes");
}

std::string QkNorm::Desc::ToString() const {
  return StrCat(Name(activation), " ", q_heads, "/", kv_heads, " heads of ", head_dim, " eps ",
                eps);
}

Status CheckArgs(const Norm::Desc& desc, const Norm::Args& args) {
  const int64_t tokens = args.x.rank == 2 ? args.x.dims[0] : -1;
  ArgsChecker check(Norm::kName, args.x);
  check.Expect("x", args.x, XDType(desc), {tokens, desc.hidden})
      .ExpectIf(desc.add, "residual", args.residual, SumDType(desc), {tokens, desc.hidden})
      .ExpectIf(desc.kind != NormKind::kNone, "weight", args.weight, DType::kF32, {desc.hidden})
      .ExpectIf(desc.bias, "bias", args.bias, DType::kF32, {desc.hidden})
      .ExpectIf(desc.scaled, "scale", args.scale, DType::kF32, {1})
      .ExpectIf(desc.form != RowForm::kCodes, "out", args.out, desc.activation,
                {tokens, desc.hidden})
      .ExpectApart("x", args.x, "residual", args.residual)
      .ExpectApart("out", args.out, "residual", args.residual);
  const bool codes = desc.form != RowForm::kPlain;
  const int64_t groups = (desc.hidden + kCodeGroup - 1) / kCodeGroup;
  check.ExpectIf(codes, "codes", args.codes, DType::kF8E4M3, {tokens, desc.hidden})
      .ExpectIf(codes, "code_scales", args.code_scales, DType::kF32, {groups, tokens});
  for (const Tensor* other : {&args.x, &args.residual, &args.out, &args.code_scales})
    check.ExpectApart("codes", args.codes, "another tensor", *other);
  for (const Tensor* other : {&args.x, &args.residual, &args.out})
    check.ExpectApart("code_scales", args.code_scales, "another tensor", *other);
  if (XDType(desc) == desc.activation) {
    check.ExpectApartOrSame("x", args.x, "out", args.out);
  } else {
    check.ExpectApart("x", args.x, "out", args.out);
  }
  return check.status();
}

Status CheckArgs(const QkNorm::Desc& desc, const QkNorm::Args& args) {
  const int64_t width = int64_t{desc.q_heads + 2 * desc.kv_heads} * desc.head_dim;
  ArgsChecker check(QkNorm::kName, args.qkv);
  check.Expect("qkv", args.qkv, desc.activation, {-1, width})
      .Expect("q_weight", args.q_weight, DType::kF32, {desc.head_dim})
      .Expect("k_weight", args.k_weight, DType::kF32, {desc.head_dim});
  return check.status();
}

}  // namespace sluice::ops
