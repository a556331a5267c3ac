#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/conformance_case.h"
#include "ops/formats/rows.h"

namespace sluice::ops {
namespace {

DenseChain::Desc AnyDenseChain(int number, bool coded, TestNoise& noise) {
  DenseChain::Desc desc = {.weight = coded ? DType::kF8E4M3 : DType::kF32,
                           .activation = Turn(number, {DType::kBF16, DType::kF32, DType::kBF16}),
                           .tokens = Pick<int64_t>(noise, {1, 2, 4}),
                           .attended = Pick<int64_t>(noise, {512, 2560}),
                           .hidden = Pick<int64_t>(noise, {512, 512, 1024}),
                           .width = Pick<int64_t>(noise, {512, 1536}),
                           .qkv = Pick<int64_t>(noise, {0, 256, 768}),
                           .eps = Pick(noise, {1e-6f, 1e-3f})};
  if (coded) {
    desc.weight_scales = WeightScales::kBlock;
    desc.x_scales = ActivationScales::kBlock;
  }
  return desc;
}

ExpertsChain::Desc AnyExpertsChain(int number, bool coded, TestNoise& noise) {
  ExpertsChain::Desc desc = {.weight = coded ? DType::kF8E4M3 : DType::kF32,
                             .router = coded ? DType::kBF16 : DType::kF32,
                             .activation = coded || Flip(noise) ? DType::kBF16 : DType::kF32,
                             .attended = Pick<int64_t>(noise, {512, 1536}),
                             .hidden = Pick<int64_t>(noise, {512, 512, 1024}),
                             .width = Pick<int64_t>(noise, {256, 512, 768}),
                             .qkv = Pick<int64_t>(noise, {0, 256, 768}),
                             .eps = Pick(noise, {1e-6f, 1e-3f})};
  desc.route.scoring = Turn(number, kRouterScorings);
  desc.route.experts = Pick(noise, {16, 32});
  desc.route.top_k = Pick(noise, {1, 2, 6, 8});
  // Numbers far apart, so that no rounding of a logit decides who is taken.
  desc.route.bias = true;
  desc.route.renormalize = Flip(noise);
  desc.route.expert_scales = noise.Below(3) == 0;
  if (coded) {
    desc.weight_scales = WeightScales::kBlock;
    desc.x_scales = ActivationScales::kBlock;
  }
  return desc;
}

// Values within about +-1 by the scales that come with them.
Array RowsOf(TestNoise& noise, const Linear::Desc& product) {
  Array array(product.weight, {product.n, product.k});
  std::vector<float> row(static_cast<size_t>(product.k));
  const size_t row_bytes = RowBytes(product.weight, row.size());
  for (int64_t r = 0; r < product.n; ++r) {
    for (float& value : row) value = noise.Value();
    QuantizeRow(product.weight, row, array.tensor().data + r * row_bytes);
  }
  return array;
}

struct Matrix {
  size_t data, scales;
  Linear::Desc product;
};
template <class Op>
Matrix AddMatrix(ConformanceCase<Op>& c, TestNoise& noise, Linear::Desc product) {
  product.n = std::max<int64_t>(product.n, 1);
  Matrix matrix{c.Add(RowsOf(noise, product)), 0, product};
  Array scales(DType::kF32, ScaleShape(product));
  // Rows of W are about as long as a row that is multiplied is wide.
  for (size_t i = 0; i < scales.Count(); ++i)
    scales.Set(i, (1.0f + 0.5f * noise.Value()) / std::sqrt(static_cast<float>(product.k)));
  matrix.scales = c.Add(std::move(scales));
  return matrix;
}

const PackedWeight* WeightOf(const Matrix& matrix, std::span<const Tensor> t,
                             ConformanceTarget& target) {
  const Linear::Desc& product = matrix.product;
  PackedWeight packed = {t[matrix.data], product.weight, LayoutId::kRowMajor, product.n, product.k};
  if (product.weight_scales != WeightScales::kNone) packed.scales = t[matrix.scales];
  target.weights.push_back(packed);
  return &target.weights.back();
}

// Of two norms' weights, [2, hidden].
Tensor NormOf(const Tensor& norms, int64_t number) {
  Tensor row = norms.Rows(number, 1);
  row.rank = 1;
  row.dims[0] = norms.dims[1];
  row.strides[0] = 1;
  return row;
}

// Where the places of each expert begin: few have many, some have none, and by turns the last
// places are nobody's.
std::vector<int32_t> PlacesOf(int number, TestNoise& noise, int experts, int64_t places) {
  std::vector<int32_t> starts = {0};
  const int64_t given = number % 3 == 2 ? noise.Below(places + 1) : places;
  for (int e = 0; e + 1 < experts; ++e) {
    const int64_t left = given - starts.back(), most = std::max<int64_t>(left / 3, 1);
    const int64_t count = std::min(left, noise.Below(most + 1) * noise.Below(2));
    starts.push_back(starts.back() + static_cast<int32_t>(count));
  }
  starts.push_back(static_cast<int32_t>(given));
  return starts;
}

}  // namespace

ConformanceCase<GroupedGate> MakeCase(const GroupedGate&, int number, TestNoise& noise) {
  ConformanceCase<GroupedGate> c;
  const bool coded = number % 4 != 3;
  Linear::Desc& each = c.desc.products.each;
  each = {.weight = coded ? DType::kF8E4M3 : DType::kF32,
          .activation = coded || Flip(noise) ? DType::kBF16 : DType::kF32,
          .n = Pick<int64_t>(noise, {256, 512, 768}),
          .k = Pick<int64_t>(noise, {256, 512, 768})};
  if (coded) {
    each.weight_scales = WeightScales::kBlock;
    each.x_scales = ActivationScales::kBlock;
  }
  c.desc.products.experts = Pick(noise, {1, 3, 16, 40});
  c.desc.products.top_k = Pick(noise, {1, 4});
  c.desc.kind = Turn(number, kActivations);
  const int64_t places = IsEmpty(number) ? 0 : Pick<int64_t>(noise, {1, 2, 8, 40, 130});
  const bool gathers = Flip(noise);
  const int64_t rows = gathers ? Pick<int64_t>(noise, {1, 5, 40}) : places;
  const std::vector<int32_t> starts = PlacesOf(number, noise, c.desc.products.experts, places);
  std::vector<int32_t> tokens;
  for (int64_t p = 0; p < places; ++p) {
    // What lies beyond the last expert's places may not be followed.
    tokens.push_back(p < starts.back() ? static_cast<int32_t>(noise.Below(rows)) : 2000000000);
  }
  const Matrix matrix = AddMatrix(c, noise, c.desc.products.Stacked());
  const size_t x = c.Add(Filled(noise, each.activation, {rows, each.k + 8}));
  const size_t token = c.Add(Array::Ints(tokens)), start = c.Add(Array::Ints(starts));
  const int64_t width = c.desc.width();
  // A sum that is added in another order moves a rounding, and that a code by a step; so does the
  // scale, which is another one by as little.
  const size_t codes = c.Add(Untouched(DType::kF8E4M3, {places, width}), 2 * kF8CodeStep);
  c.comparers[codes] = &CompareCodes;
  const size_t scales = c.Add(Untouched(DType::kF32, {c.desc.gate().groups(), places + 3}),
                              LimitFor(DType::kBF16, 1e-3));
  c.args = [=, desc = c.desc](ConformanceTarget& target,
                              std::span<const Tensor> t) -> Result<GroupedGate::Args> {
    GroupedGate::Args args{.x = Columns(t[x], desc.products.each.k), .starts = t[start]};
    if (gathers) args.tokens = t[token];
    args.weight = WeightOf(matrix, t, target);
    args.codes = t[codes];
    args.scales = Columns(t[scales], places);
    return args;
  };
  return c;
}

ConformanceCase<DenseChain> MakeCase(const DenseChain&, int number, TestNoise& noise) {
  ConformanceCase<DenseChain> c;
  const bool coded = number % 4 != 3;
  c.desc = AnyDenseChain(number, coded, noise);
  const DenseChain::Desc desc = c.desc;
  const DType type = desc.activation;
  const int64_t tokens = IsEmpty(number) ? 0 : 1 + noise.Below(desc.tokens);
  // Where sums are added in another order a number is rounded the other way here and there, and its
  // code with it: one of 16 such codes moves by a sixteenth, one of some hundred in a sum.
  const Allowance limit(0.0, 0.0, LimitFor(type, coded ? 0.015 : 1e-4));
  const auto add = [&](int64_t n, int64_t k) {
    return AddMatrix(c, noise, ProductOf(desc, n, k, false));
  };
  const Matrix o = add(desc.hidden, desc.attended), gate_up = add(2 * desc.width, desc.hidden),
               down = add(desc.hidden, desc.width), qkv = add(desc.qkv, desc.hidden);
  const size_t attended = c.Add(Filled(noise, type, {tokens, desc.attended + 8}));
  const size_t residual = c.Add(Filled(noise, type, {tokens, desc.hidden}));
  const size_t norms = c.Add(Filled(noise, DType::kF32, {2, desc.hidden}));
  const size_t middle = c.Add(Untouched(type, {tokens, desc.hidden}), limit);
  const size_t gated = c.Add(Untouched(type, {tokens, desc.width}), limit);
  const size_t out = c.Add(Untouched(type, {tokens, desc.hidden}), limit);
  const size_t next = c.Add(Untouched(type, {tokens, desc.qkv + 8}), limit);
  c.args = [=](ConformanceTarget& target, std::span<const Tensor> t) -> Result<DenseChain::Args> {
    const auto weight = [&](const Matrix& matrix) { return WeightOf(matrix, t, target); };
    DenseChain::Args args{.attended = Columns(t[attended], desc.attended), .residual = t[residual]};
    args.w_o = weight(o);
    args.w_gate_up = weight(gate_up);
    args.w_down = weight(down);
    args.mlp_norm = NormOf(t[norms], 0);
    args.middle = t[middle];
    args.gated = t[gated];
    args.out = t[out];
    if (desc.qkv == 0) return args;
    args.w_qkv = weight(qkv);
    args.next_norm = NormOf(t[norms], 1);
    args.qkv = Columns(t[next], desc.qkv);
    return args;
  };
  return c;
}

ConformanceCase<ExpertsChain> MakeCase(const ExpertsChain&, int number, TestNoise& noise) {
  ConformanceCase<ExpertsChain> c;
  const bool coded = number % 4 != 3;
  c.desc = AnyExpertsChain(number, coded, noise);
  const ExpertsChain::Desc desc = c.desc;
  const DType type = desc.activation;
  const int64_t experts = desc.route.experts;
  // As that of a dense chain, whose products these are.
  const Allowance limit(0.0, 0.0, LimitFor(type, coded ? 0.015 : 1e-4));
  const Matrix o = AddMatrix(c, noise, ProductOf(desc, desc.hidden, desc.attended, false)),
               router = AddMatrix(c, noise, RouterOf(desc)),
               gate_up = AddMatrix(c, noise, FirstProductsOf(desc).Stacked()),
               down = AddMatrix(c, noise, SecondProductsOf(desc).Stacked()),
               qkv = AddMatrix(c, noise, ProductOf(desc, desc.qkv, desc.hidden, false));
  Array bias(DType::kF32, {experts});
  for (int64_t e = 0; e < experts; ++e)
    bias.Set(static_cast<size_t>(e), 1000.0f * static_cast<float>((7 * e + number) % experts));
  const size_t score_bias = c.Add(std::move(bias));
  const size_t scales = c.Add(Filled(noise, DType::kF32, {experts}));
  const size_t attended = c.Add(Filled(noise, type, {1, desc.attended}));
  const size_t residual = c.Add(Filled(noise, type, {1, desc.hidden}));
  const size_t norms = c.Add(Filled(noise, DType::kF32, {2, desc.hidden}));
  const size_t middle = c.Add(Untouched(type, {1, desc.hidden}), limit);
  const size_t logits = c.Add(Untouched(DType::kF32, {1, experts}), limit);
  const size_t gated = c.Add(Filled(noise, type, {desc.route.top_k, desc.width}), limit);
  // Room, in which the choices lie in any order.
  c.comparers[gated] = [](const Array&, const Array&, double) { return Comparison{}; };
  const size_t out = c.Add(Untouched(type, {1, desc.hidden}), limit);
  const size_t next = c.Add(Untouched(type, {1, desc.qkv + 8}), limit);
  c.args = [=](ConformanceTarget& target, std::span<const Tensor> t) -> Result<ExpertsChain::Args> {
    const auto weight = [&](const Matrix& matrix) { return WeightOf(matrix, t, target); };
    ExpertsChain::Args args{.attended = t[attended], .residual = t[residual]};
    args.w_o = weight(o);
    args.w_router = weight(router);
    args.w_gate_up = weight(gate_up);
    args.w_down = weight(down);
    args.mlp_norm = NormOf(t[norms], 0);
    args.score_bias = t[score_bias];
    if (desc.route.expert_scales) args.expert_scales = t[scales];
    args.middle = t[middle];
    args.logits = t[logits];
    args.gated = t[gated];
    args.out = t[out];
    if (desc.qkv == 0) return args;
    args.w_qkv = weight(qkv);
    args.next_norm = NormOf(t[norms], 1);
    args.qkv = Columns(t[next], desc.qkv);
    return args;
  };
  return c;
}

}  // namespace sluice::ops
