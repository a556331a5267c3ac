#include <algorithm>
#include <vector>

#include "ops/conformance_case.h"

namespace sluice::ops {
namespace {

// As many choices as a token may have.
int AnyTopK(TestNoise& noise, int most) { return std::min(Pick(noise, {1, 2, 4, 6, 8}), most); }

// Different experts for each token: spread at random, or the same for all, so that some have
// everybody and most have nobody.
std::vector<int32_t> AnyChoice(TestNoise& noise, int64_t tokens, int experts, int top_k) {
  const bool same = Flip(noise);
  std::vector<int32_t> order(static_cast<size_t>(experts)), ids;
  for (int32_t e = 0; e < experts; ++e) order[static_cast<size_t>(e)] = e;
  for (int64_t t = 0; t < tokens; ++t) {
    for (int i = 0; i < top_k && (t == 0 || !same); ++i) {
      std::swap(order[static_cast<size_t>(i)],
                order[static_cast<size_t>(i + noise.Below(experts - i))]);
    }
    ids.insert(ids.end(), order.begin(), order.begin() + top_k);
  }
  return ids;
}

Array Numbers(std::vector<int64_t> dims) {
  Array array(DType::kI32, std::move(dims));
  for (size_t i = 0; i < array.Count(); ++i) array.Int(i) = -77;
  return array;
}

}  // namespace

ConformanceCase<RouteExperts> MakeCase(const RouteExperts&, int number, TestNoise& noise) {
  ConformanceCase<RouteExperts> c;
  c.desc.scoring = Turn(number, kRouterScorings);
  c.desc.groups = Turn(number / 2, {1, 1, 4, 8});
  c.desc.experts = c.desc.groups * Pick(noise, {1, 2, 4, 16, 33});
  c.desc.groups_kept = 1 + static_cast<int>(noise.Below(c.desc.groups));
  c.desc.top_k = AnyTopK(noise, c.desc.experts / c.desc.groups * c.desc.groups_kept);
  c.desc.bias = Flip(noise);
  c.desc.renormalize = Flip(noise);
  c.desc.expert_scales = noise.Below(3) == 0;
  c.desc.scale = Pick(noise, {1.0f, 2.5f});
  const int64_t tokens = AnyTokens(number, noise);
  // Steps of a quarter: many are equal, and those that are not differ by more than a device's
  // rounding of a sigmoid, as do sums of two, since none is below zero.
  Array logits(DType::kF32, {tokens, c.desc.experts + 3}), bias(DType::kF32, {c.desc.experts});
  const int64_t steps = Pick<int64_t>(noise, {1, 4, 16});
  for (size_t i = 0; i < logits.Count(); ++i) {
    logits.Set(i, 0.25f * static_cast<float>(noise.Below(2 * steps + 1)));
  }
  for (size_t i = 0; i < bias.Count(); ++i) {
    bias.Set(i, 2.0f * static_cast<float>(noise.Below(3)));
  }
  const size_t x = c.Add(std::move(logits)), b = c.Add(std::move(bias));
  const size_t scales = c.Add(Filled(noise, DType::kF32, {c.desc.experts}));
  const size_t ids = c.Add(Numbers({tokens, c.desc.top_k}));
  const size_t weights = c.Add(Untouched(DType::kF32, {tokens, c.desc.top_k}), 1e-6);
  c.args = [=, desc = c.desc](ConformanceTarget&,
                              std::span<const Tensor> t) -> Result<RouteExperts::Args> {
    RouteExperts::Args args{
        .logits = Columns(t[x], desc.experts), .ids = t[ids], .weights = t[weights]};
    if (desc.bias) args.bias = t[b];
    if (desc.expert_scales) args.scales = t[scales];
    return args;
  };
  return c;
}

ConformanceCase<FakeBalanceExperts> MakeCase(const FakeBalanceExperts&, int number,
                                             TestNoise& noise) {
  ConformanceCase<FakeBalanceExperts> c;
  c.desc.experts = Pick(noise, {1, 3, 64, 130});
  c.desc.top_k = AnyTopK(noise, c.desc.experts);
  const int64_t tokens = AnyTokens(number, noise);
  const size_t ids = c.Add(Numbers({tokens, c.desc.top_k + 1}));
  const size_t weights = c.Add(Untouched(DType::kF32, {tokens, c.desc.top_k + 1}), 1e-7);
  c.args = [=, desc = c.desc](ConformanceTarget&,
                              std::span<const Tensor> t) -> Result<FakeBalanceExperts::Args> {
    return FakeBalanceExperts::Args{.ids = Columns(t[ids], desc.top_k),
                                    .weights = Columns(t[weights], desc.top_k)};
  };
  return c;
}

ConformanceCase<MapExperts> MakeCase(const MapExperts&, int number, TestNoise& noise) {
  ConformanceCase<MapExperts> c;
  c.desc.experts = Pick(noise, {1, 3, 64, 130});
  c.desc.slots = c.desc.experts + static_cast<int>(noise.Below(c.desc.experts + 2));
  c.desc.top_k = AnyTopK(noise, c.desc.experts);
  const int64_t tokens = AnyTokens(number, noise);
  // Some slots are nobody's; of the others each expert has one and the rest are anyone's.
  const int named =
      c.desc.experts + static_cast<int>(noise.Below(c.desc.slots - c.desc.experts + 1));
  std::vector<int32_t> sizes(static_cast<size_t>(c.desc.experts), 1), map = {0};
  for (int i = c.desc.experts; i < named; ++i) ++sizes[noise.Below(c.desc.experts)];
  for (const int32_t size : sizes) map.push_back(map.back() + size);
  const std::vector<int32_t> order = AnyChoice(noise, 1, c.desc.slots, c.desc.slots);
  map.insert(map.end(), order.begin(), order.end());
  Array tokens_of(DType::kI32, {tokens}), positions(DType::kI32, {tokens});
  for (size_t t = 0; t < tokens_of.Count(); ++t) {
    tokens_of.Int(t) = static_cast<int32_t>(noise.Below(150'000));
    positions.Int(t) = static_cast<int32_t>(noise.Below(1'000'000));
  }
  const size_t token = c.Add(std::move(tokens_of)), position = c.Add(std::move(positions));
  const size_t maps = c.Add(Array::Ints({c.desc.map_size()}, map));
  const size_t ids = c.Add(
      Array::Ints({tokens, c.desc.top_k}, AnyChoice(noise, tokens, c.desc.experts, c.desc.top_k)));
  const size_t counts = c.Add(Numbers({c.desc.experts}));
  const size_t counted =
      c.Add(Array::Ints({1}, {static_cast<int32_t>(noise.Below(static_cast<int>(tokens) + 1))}));
  const bool counts_some = number % 3 != 0, pads = number % 3 == 2;
  c.args = [=](ConformanceTarget&, std::span<const Tensor> t) -> Result<MapExperts::Args> {
    MapExperts::Args args{
        .token_ids = t[token], .positions = t[position], .map = t[maps], .ids = t[ids]};
    if (counts_some) args.counts = t[counts];
    if (pads) args.counted = t[counted];
    return args;
  };
  return c;
}

ConformanceCase<GroupExperts> MakeCase(const GroupExperts&, int number, TestNoise& noise) {
  ConformanceCase<GroupExperts> c;
  c.desc.experts = Pick(noise, {1, 3, 64, 130});
  c.desc.top_k = AnyTopK(noise, c.desc.experts);
  const int64_t tokens = AnyTokens(number, noise), places = tokens * c.desc.top_k;
  const size_t ids = c.Add(
      Array::Ints({tokens, c.desc.top_k}, AnyChoice(noise, tokens, c.desc.experts, c.desc.top_k)));
  const size_t starts = c.Add(Numbers({c.desc.experts + 1}));
  const size_t token = c.Add(Numbers({places})), place = c.Add(Numbers({tokens, c.desc.top_k}));
  const size_t counts = c.Add(Numbers({c.desc.experts}));
  const size_t counted =
      c.Add(Array::Ints({1}, {static_cast<int32_t>(noise.Below(static_cast<int>(tokens) + 1))}));
  const bool counts_some = number % 3 != 0, pads = number % 3 == 2;
  c.args = [=](ConformanceTarget&, std::span<const Tensor> t) -> Result<GroupExperts::Args> {
    GroupExperts::Args args{
        .ids = t[ids], .starts = t[starts], .tokens = t[token], .places = t[place]};
    if (counts_some) args.counts = t[counts];
    if (pads) args.counted = t[counted];
    return args;
  };
  return c;
}

ConformanceCase<ScaleExperts> MakeCase(const ScaleExperts&, int number, TestNoise& noise) {
  ConformanceCase<ScaleExperts> c;
  c.desc.activation = FloatOf(number);
  c.desc.top_k = Pick(noise, {1, 2, 8});
  c.desc.width = Pick<int64_t>(noise, {1, 16, 40, 2050});
  const int64_t tokens = AnyTokens(number, noise), places = tokens * c.desc.top_k;
  std::vector<int32_t> order =
      AnyChoice(noise, places > 0 ? 1 : 0, static_cast<int>(places), static_cast<int>(places));
  const size_t x = c.Add(Filled(noise, c.desc.activation, {places, c.desc.width + 2}),
                         LimitFor(c.desc.activation, 1e-7));
  const size_t weights = c.Add(Filled(noise, DType::kF32, {tokens, c.desc.top_k}), 1e-9);
  const size_t place = c.Add(Array::Ints({tokens, c.desc.top_k}, order));
  c.args = [=, desc = c.desc](ConformanceTarget&,
                              std::span<const Tensor> t) -> Result<ScaleExperts::Args> {
    return ScaleExperts::Args{
        .x = Columns(t[x], desc.width), .weights = t[weights], .places = t[place]};
  };
  return c;
}

ConformanceCase<CombineExperts> MakeCase(const CombineExperts&, int number, TestNoise& noise) {
  ConformanceCase<CombineExperts> c;
  c.desc.out = FloatOf(number);
  c.desc.top_k = Pick(noise, {1, 2, 8});
  c.desc.width = Pick<int64_t>(noise, {1, 16, 40, 2050});
  c.desc.residual = Flip(noise);
  const int64_t tokens = AnyTokens(number, noise), places = tokens * c.desc.top_k;
  // Every place once, in any order.
  std::vector<int32_t> order =
      AnyChoice(noise, places > 0 ? 1 : 0, static_cast<int>(places), static_cast<int>(places));
  const bool in_place = c.desc.residual && Flip(noise);
  const double limit = LimitFor(c.desc.out, 1e-6);
  const size_t y = c.Add(Filled(noise, DType::kF32, {places, c.desc.width + 2}));
  const size_t weights = c.Add(Filled(noise, DType::kF32, {tokens, c.desc.top_k}));
  const size_t place = c.Add(Array::Ints({tokens, c.desc.top_k}, order));
  const size_t residual =
      c.Add(Filled(noise, c.desc.out, {tokens, c.desc.width}), in_place ? limit : 0.0);
  const size_t out = c.Add(Untouched(c.desc.out, {tokens, c.desc.width}), in_place ? 0.0 : limit);
  c.args = [=, desc = c.desc](ConformanceTarget&,
                              std::span<const Tensor> t) -> Result<CombineExperts::Args> {
    CombineExperts::Args args{
        .y = Columns(t[y], desc.width), .weights = t[weights], .places = t[place]};
    if (desc.residual) args.residual = t[residual];
    args.out = in_place ? t[residual] : t[out];
    return args;
  };
  return c;
}

}  // namespace sluice::ops
