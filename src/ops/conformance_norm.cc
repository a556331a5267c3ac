#include "ops/conformance_case.h"

namespace sluice::ops {

ConformanceCase<Norm> MakeCase(const Norm&, int number, TestNoise& noise) {
  ConformanceCase<Norm> c;
  const NormKind kind = Pick(noise, {NormKind::kRms, NormKind::kLayer, NormKind::kNone});
  const bool add = Flip(noise);
  c.desc = {.kind = kind,
            .activation = FloatOf(number),
            .hidden = Turn<int64_t>(number, {Pick<int64_t>(noise, {1, 5, 16, 31, 64, 100}),
                                             Pick<int64_t>(noise, {576, 1000, 2048}), 9003}),
            .eps = Pick(noise, {1e-6f, 1e-5f, 1e-3f}),
            .add = add,
            .scaled = add && Flip(noise),
            .bias = kind == NormKind::kLayer && Flip(noise),
            .f32_residual = FloatOf(number) == DType::kF16 && Flip(noise)};
  // Most rows are read as they are.
  if (number % 3 == 2) c.desc.form = Pick(noise, {RowForm::kCodes, RowForm::kBoth});
  const int64_t tokens = AnyTokens(number, noise), n = c.desc.hidden, gap = noise.Below(3) * 5;
  const DType type = c.desc.activation, x_type = XDType(c.desc);
  // With a mean, what is added to a row shows in its sums of squares, and those of the reference
  // are less exact: it adds one element after the other.
  const float mean = Pick(noise, {0.0f, 3.0f});
  const double limit = LimitFor(type, mean == 0.0f ? 1e-5 : 3e-5);
  const bool coded = c.desc.form != RowForm::kPlain;
  const bool in_place = x_type == type && c.desc.form != RowForm::kCodes && Flip(noise);
  Array values = Filled(noise, x_type, {tokens, n + gap}, 4.0f);
  for (size_t i = 0; i < values.Count(); ++i) values.Set(i, values.At(i) + mean);
  const size_t x = c.Add(std::move(values), in_place ? limit : 0.0);
  const size_t residual =
      c.Add(Filled(noise, SumDType(c.desc), {tokens, n}));  // one sum, one rounding
  const size_t weight = c.Add(Filled(noise, DType::kF32, {n}));
  const size_t bias = c.Add(Filled(noise, DType::kF32, {n}));
  const size_t scale = c.Add(Filled(noise, DType::kF32, {1}));
  const size_t out = c.Add(Untouched(type, {tokens, n}), limit);
  const size_t codes = c.Add(Untouched(DType::kF8E4M3, {tokens, n}), coded ? kF8CodeStep : 0.0);
  if (coded) c.comparers[codes] = &CompareCodes;
  const size_t code_scales =
      c.Add(Untouched(DType::kF32, {(n + kCodeGroup - 1) / kCodeGroup, tokens + 3}), limit);
  c.args = [=, desc = c.desc](ConformanceTarget&, std::span<const Tensor> t) -> Result<Norm::Args> {
    Norm::Args args{.x = Columns(t[x], n)};
    if (desc.kind != NormKind::kNone) args.weight = t[weight];
    if (desc.add) args.residual = t[residual];
    if (desc.bias) args.bias = t[bias];
    if (desc.scaled) args.scale = t[scale];
    if (desc.form != RowForm::kCodes) args.out = in_place ? args.x : t[out];
    if (coded) args.codes = t[codes], args.code_scales = Columns(t[code_scales], tokens);
    return args;
  };
  return c;
}

ConformanceCase<QkNorm> MakeCase(const QkNorm&, int number, TestNoise& noise) {
  ConformanceCase<QkNorm> c;
  c.desc = {.activation = FloatOf(number),
            .q_heads = Pick(noise, {1, 3, 9, 32}),
            .kv_heads = Pick(noise, {0, 1, 3}),
            .head_dim = Pick(noise, {1, 20, 64, 80, 128, 512}),
            .eps = 1e-6f};
  const int64_t width = int64_t{c.desc.q_heads + 2 * c.desc.kv_heads} * c.desc.head_dim;
  const size_t qkv = c.Add(Filled(noise, c.desc.activation, {AnyTokens(number, noise), width + 3}),
                           LimitFor(c.desc.activation, 3e-6));
  const size_t q = c.Add(Filled(noise, DType::kF32, {c.desc.head_dim}));
  const size_t k = c.Add(Filled(noise, DType::kF32, {c.desc.head_dim}));
  c.args = [=](ConformanceTarget&, std::span<const Tensor> t) -> Result<QkNorm::Args> {
    return QkNorm::Args{.qkv = Columns(t[qkv], width), .q_weight = t[q], .k_weight = t[k]};
  };
  return c;
}

}  // namespace sluice::ops
