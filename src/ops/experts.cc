#include "ops/experts.h"

#include "ops/check_args.h"

namespace sluice::ops {

std::string_view Name(RouterScoring scoring) {
  if (scoring == RouterScoring::kSoftmaxBiased) return "biased softmax";
  return scoring == RouterScoring::kSoftmax ? "softmax" : "sigmoid";
}

std::string RouteExperts::Desc::ToString() const {
  return StrCat(Name(scoring), " ", top_k, " of ", experts,
                groups > 1 ? StrCat(" in ", groups_kept, " of ", groups, " groups") : "",
                bias ? " +bias" : "", renormalize ? " renormalized" : "",
                scale != 1.0f ? StrCat(" times ", scale) : "",
                expert_scales ? " times scales of experts" : "");
}

std::string GroupExperts::Desc::ToString() const { return StrCat(top_k, " of ", experts); }

std::string ScaleExperts::Desc::ToString() const {
  return StrCat(top_k, " of ", width, " in ", Name(activation));
}

std::string CombineExperts::Desc::ToString() const {
  return StrCat(top_k, " of ", width, " to ", Name(out), residual ? " +residual" : "");
}

Status CheckArgs(const RouteExperts::Desc& desc, const RouteExperts::Args& args) {
  const int64_t tokens = args.logits.rank == 2 ? args.logits.dims[0] : -1;
  ArgsChecker check(RouteExperts::kName, args.logits);
  check.Expect("logits", args.logits, DType::kF32, {tokens, desc.experts})
      .ExpectIf(desc.bias, "bias", args.bias, DType::kF32, {desc.experts})
      .ExpectIf(desc.expert_scales, "scales", args.scales, DType::kF32, {desc.experts})
      .Expect("ids", args.ids, DType::kI32, {tokens, desc.top_k})
      .Expect("weights", args.weights, DType::kF32, {tokens, desc.top_k})
      .ExpectApart("logits", args.logits, "ids", args.ids)
      .ExpectApart("logits", args.logits, "weights", args.weights)
      .ExpectApart("ids", args.ids, "weights", args.weights);
  return check.status();
}

Status CheckArgs(const GroupExperts::Desc& desc, const GroupExperts::Args& args) {
  const int64_t tokens = args.ids.rank == 2 ? args.ids.dims[0] : -1;
  const int64_t places = tokens < 0 ? -1 : tokens * desc.top_k;
  ArgsChecker check(GroupExperts::kName, args.ids);
  check.Expect("ids", args.ids, DType::kI32, {tokens, desc.top_k})
      .Expect("starts", args.starts, DType::kI32, {desc.experts + 1})
      .Expect("tokens", args.tokens, DType::kI32, {places})
      .Expect("places", args.places, DType::kI32, {tokens, desc.top_k})
      .ExpectIf(!args.counts.empty(), "counts", args.counts, DType::kI32, {desc.experts})
      .ExpectIf(!args.counted.empty(), "counted", args.counted, DType::kI32, {1})
      .ExpectApart("ids", args.ids, "counts", args.counts)
      .ExpectApart("ids", args.ids, "starts", args.starts)
      .ExpectApart("ids", args.ids, "tokens", args.tokens)
      .ExpectApart("ids", args.ids, "places", args.places);
  return check.status();
}

Status CheckArgs(const ScaleExperts::Desc& desc, const ScaleExperts::Args& args) {
  const int64_t tokens = args.weights.rank == 2 ? args.weights.dims[0] : -1;
  const int64_t places = tokens < 0 ? -1 : tokens * desc.top_k;
  ArgsChecker check(ScaleExperts::kName, args.x);
  check.Expect("x", args.x, desc.activation, {places, desc.width})
      .Expect("weights", args.weights, DType::kF32, {tokens, desc.top_k})
      .Expect("places", args.places, DType::kI32, {tokens, desc.top_k})
      .ExpectApart("x", args.x, "weights", args.weights)
      .ExpectApart("x", args.x, "places", args.places)
      .ExpectApart("weights", args.weights, "places", args.places);
  return check.status();
}

Status CheckArgs(const CombineExperts::Desc& desc, const CombineExperts::Args& args) {
  const int64_t tokens = args.out.rank == 2 ? args.out.dims[0] : -1;
  const int64_t places = tokens < 0 ? -1 : tokens * desc.top_k;
  ArgsChecker check(CombineExperts::kName, args.out);
  check.Expect("y", args.y, DType::kF32, {places, desc.width})
      .Expect("weights", args.weights, DType::kF32, {tokens, desc.top_k})
      .Expect("places", args.places, DType::kI32, {tokens, desc.top_k})
      .ExpectIf(desc.residual, "residual", args.residual, desc.out, {tokens, desc.width})
      .Expect("out", args.out, desc.out, {tokens, desc.width})
      .ExpectApart("y", args.y, "out", args.out)
      .ExpectApart("weights", args.weights, "out", args.out)
      .ExpectApartOrSame("residual", args.residual, "out", args.out);
  return check.status();
}

}  // namespace sluice::ops
