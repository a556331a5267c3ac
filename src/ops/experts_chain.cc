#include "ops/experts_chain.h"

#include "ops/expect_weight.h"

namespace sluice::ops {

std::string ExpertsChain::Desc::ToString() const {
  return StrCat(ProductOf(*this, hidden, attended, true).ToString(), ", ", route.ToString(),
                " by a router in ", Name(router), ", ", Name(kind), " of ", width,
                qkv > 0 ? StrCat(", then ", qkv) : "", ", eps ", eps);
}

Linear::Desc ProductOf(const ExpertsChain::Desc& desc, int64_t n, int64_t k, bool residual) {
  return {.weight = desc.weight,
          .weight_scales = desc.weight_scales,
          .x_scales = desc.x_scales,
          .activation = desc.activation,
          .n = n,
          .k = k,
          .residual = residual};
}
Linear::Desc RouterOf(const ExpertsChain::Desc& desc) {
  return {.weight = desc.router,
          .activation = desc.activation,
          .n = desc.route.experts,
          .k = desc.hidden,
          .f32_out = true};
}
GroupedLinear::Desc FirstProductsOf(const ExpertsChain::Desc& desc) {
  return {.each = ProductOf(desc, 2 * desc.width, desc.hidden, false),
          .experts = desc.route.experts,
          .top_k = desc.route.top_k};
}
GroupedLinear::Desc SecondProductsOf(const ExpertsChain::Desc& desc) {
  GroupedLinear::Desc products = {.each = ProductOf(desc, desc.hidden, desc.width, false),
                                  .experts = desc.route.experts,
                                  .top_k = desc.route.top_k};
  products.each.f32_out = true;
  return products;
}

Status CheckArgs(const ExpertsChain::Desc& desc, const ExpertsChain::Args& args) {
  const int64_t experts = desc.route.experts, top_k = desc.route.top_k;
  const bool next = desc.qkv > 0;
  ArgsChecker check(ExpertsChain::kName, args.attended);
  check.Expect("attended", args.attended, desc.activation, {1, desc.attended})
      .Expect("residual", args.residual, desc.activation, {1, desc.hidden})
      .Expect("mlp_norm", args.mlp_norm, DType::kF32, {desc.hidden})
      .ExpectIf(next, "next_norm", args.next_norm, DType::kF32, {desc.hidden})
      .ExpectIf(desc.route.bias, "score_bias", args.score_bias, DType::kF32, {experts})
      .ExpectIf(desc.route.expert_scales, "expert_scales", args.expert_scales, DType::kF32,
                {experts})
      .ExpectIf(!args.counts.empty(), "counts", args.counts, DType::kI32, {experts})
      .ExpectIf(!args.counted.empty(), "counted", args.counted, DType::kI32, {1})
      .Expect("middle", args.middle, desc.activation, {1, desc.hidden})
      .Expect("logits", args.logits, DType::kF32, {1, experts})
      .Expect("gated", args.gated, desc.activation, {top_k, desc.width})
      .Expect("out", args.out, desc.activation, {1, desc.hidden})
      .ExpectIf(next, "qkv", args.qkv, desc.activation, {1, desc.qkv})
      .ExpectApart("attended", args.attended, "middle", args.middle)
      .ExpectApartOrSame("residual", args.residual, "middle", args.middle)
      .ExpectApartOrSame("residual", args.residual, "out", args.out)
      .ExpectApartOrSame("middle", args.middle, "out", args.out)
      .ExpectApart("gated", args.gated, "middle", args.middle)
      .ExpectApart("gated", args.gated, "out", args.out)
      .ExpectApart("gated", args.gated, "logits", args.logits)
      .ExpectApart("logits", args.logits, "middle", args.middle)
      .ExpectApart("logits", args.logits, "out", args.out)
      .ExpectApart("qkv", args.qkv, "out", args.out);
  ExpectRowWeight("w_o", ProductOf(desc, desc.hidden, desc.attended, true), args.w_o, check);
  ExpectRowWeight("w_router", RouterOf(desc), args.w_router, check);
  ExpectRowWeight("w_gate_up", FirstProductsOf(desc).Stacked(), args.w_gate_up, check);
  ExpectRowWeight("w_down", SecondProductsOf(desc).Stacked(), args.w_down, check);
  if (next)
    ExpectRowWeight("w_qkv", ProductOf(desc, desc.qkv, desc.hidden, false), args.w_qkv, check);
  return check.status();
}

}  // namespace sluice::ops
