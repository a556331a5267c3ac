#include "ops/dense_chain.h"

#include "ops/expect_weight.h"

namespace sluice::ops {

std::string DenseChain::Desc::ToString() const {
  return StrCat(ProductOf(*this, hidden, attended, true).ToString(), ", ", Name(kind), " of ",
                width, qkv > 0 ? StrCat(", then ", qkv) : "", ", up to ", tokens, " tokens, eps ",
                eps);
}

Linear::Desc ProductOf(const DenseChain::Desc& desc, int64_t n, int64_t k, bool residual) {
  return {.weight = desc.weight,
          .weight_scales = desc.weight_scales,
          .x_scales = desc.x_scales,
          .activation = desc.activation,
          .n = n,
          .k = k,
          .residual = residual};
}

Status CheckArgs(const DenseChain::Desc& desc, const DenseChain::Args& args) {
  const int64_t tokens = args.attended.rank == 2 ? args.attended.dims[0] : -1;
  ArgsChecker check(DenseChain::kName, args.attended);
  if (tokens > desc.tokens)
    check.Fail(StrCat(tokens, " tokens, of which a call has at most ", desc.tokens));
  const bool next = desc.qkv > 0;
  check.Expect("attended", args.attended, desc.activation, {tokens, desc.attended})
      .Expect("residual", args.residual, desc.activation, {tokens, desc.hidden})
      .Expect("mlp_norm", args.mlp_norm, DType::kF32, {desc.hidden})
      .ExpectIf(next, "next_norm", args.next_norm, DType::kF32, {desc.hidden})
      .Expect("middle", args.middle, desc.activation, {tokens, desc.hidden})
      .Expect("gated", args.gated, desc.activation, {tokens, desc.width})
      .Expect("out", args.out, desc.activation, {tokens, desc.hidden})
      .ExpectIf(next, "qkv", args.qkv, desc.activation, {tokens, desc.qkv})
      .ExpectApart("attended", args.attended, "middle", args.middle)
      .ExpectApartOrSame("residual", args.residual, "middle", args.middle)
      .ExpectApartOrSame("residual", args.residual, "out", args.out)
      .ExpectApartOrSame("middle", args.middle, "out", args.out)
      .ExpectApart("gated", args.gated, "middle", args.middle)
      .ExpectApart("gated", args.gated, "out", args.out)
      .ExpectApart("gated", args.gated, "residual", args.residual)
      .ExpectApart("qkv", args.qkv, "out", args.out);
  const auto expect = [&](std::string_view name, const PackedWeight* weight, int64_t n, int64_t k) {
    ExpectRowWeight(name, ProductOf(desc, n, k, false), weight, check);
  };
  expect("w_o", args.w_o, desc.hidden, desc.attended);
  expect("w_gate_up", args.w_gate_up, 2 * desc.width, desc.hidden);
  expect("w_down", args.w_down, desc.hidden, desc.width);
  if (next) expect("w_qkv", args.w_qkv, desc.qkv, desc.hidden);
  return check.status();
}

}  // namespace sluice::ops
