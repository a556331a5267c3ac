#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/conformance_case.h"
#include "ops/formats/rows.h"

namespace sluice::ops {
namespace {

// Values within about +-1 by the scales that come with them.
Array Weight(TestNoise& noise, DType dtype, int64_t n, int64_t k) {
  Array array(dtype, {n, k});
  std::vector<float> row(static_cast<size_t>(k));
  const size_t row_bytes = RowBytes(dtype, row.size());
  for (int64_t r = 0; r < n; ++r) {
    for (float& value : row) value = noise.Value();
    QuantizeRow(dtype, row, array.tensor().data + r * row_bytes);
  }
  return array;
}

DenseChain::Desc AnyChain(int number, bool coded, TestNoise& noise) {
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

}  // namespace

ConformanceCase<DenseChain> MakeCase(const DenseChain&, int number, TestNoise& noise) {
  ConformanceCase<DenseChain> c;
  const bool coded = number % 4 != 3;
  c.desc = AnyChain(number, coded, noise);
  const DenseChain::Desc desc = c.desc;
  const DType type = desc.activation;
  const int64_t tokens = IsEmpty(number) ? 0 : 1 + noise.Below(desc.tokens);
  // Where sums are added in another order a number is rounded the other way here and there, and its
  // code with it: one of 16 such codes moves by a sixteenth, one of some hundred in a sum.
  const Allowance limit(0.0, 0.0, LimitFor(type, coded ? 0.015 : 1e-4));
  struct Matrix {
    size_t data, scales;
    int64_t n, k;
  };
  const auto add = [&](int64_t n, int64_t k) {
    Matrix matrix{c.Add(Weight(noise, desc.weight, n, k)), 0, n, k};
    Array scales(DType::kF32, ScaleShape(ProductOf(desc, n, k, false)));
    // Rows of W are about as long as a row that is multiplied is wide.
    for (size_t i = 0; i < scales.Count(); ++i)
      scales.Set(i, (1.0f + 0.5f * noise.Value()) / std::sqrt(static_cast<float>(k)));
    matrix.scales = c.Add(std::move(scales));
    return matrix;
  };
  const Matrix o = add(desc.hidden, desc.attended), gate_up = add(2 * desc.width, desc.hidden),
               down = add(desc.hidden, desc.width),
               qkv = add(std::max<int64_t>(desc.qkv, 1), desc.hidden);
  const size_t attended = c.Add(Filled(noise, type, {tokens, desc.attended + 8}));
  const size_t residual = c.Add(Filled(noise, type, {tokens, desc.hidden}));
  const size_t norms = c.Add(Filled(noise, DType::kF32, {2, desc.hidden}));
  const size_t middle = c.Add(Untouched(type, {tokens, desc.hidden}), limit);
  const size_t gated = c.Add(Untouched(type, {tokens, desc.width}), limit);
  const size_t out = c.Add(Untouched(type, {tokens, desc.hidden}), limit);
  const size_t next = c.Add(Untouched(type, {tokens, desc.qkv + 8}), limit);
  c.args = [=](ConformanceTarget& target, std::span<const Tensor> t) -> Result<DenseChain::Args> {
    const auto weight = [&](const Matrix& matrix) {
      PackedWeight packed = {t[matrix.data], desc.weight, LayoutId::kRowMajor, matrix.n, matrix.k};
      if (desc.weight_scales != WeightScales::kNone) packed.scales = t[matrix.scales];
      target.weights.push_back(packed);
      return &target.weights.back();
    };
    const auto norm = [&](int64_t number_of) {
      Tensor row = t[norms].Rows(number_of, 1);
      row.rank = 1;
      row.dims[0] = desc.hidden;
      row.strides[0] = 1;
      return row;
    };
    DenseChain::Args args{.attended = Columns(t[attended], desc.attended), .residual = t[residual]};
    args.w_o = weight(o);
    args.w_gate_up = weight(gate_up);
    args.w_down = weight(down);
    args.mlp_norm = norm(0);
    args.middle = t[middle];
    args.gated = t[gated];
    args.out = t[out];
    if (desc.qkv == 0) return args;
    args.w_qkv = weight(qkv);
    args.next_norm = norm(1);
    args.qkv = Columns(t[next], desc.qkv);
    return args;
  };
  return c;
}

}  // namespace sluice::ops
