#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/conformance_case.h"

namespace sluice::ops {

Comparison CompareCodes(const Array& got, const Array& expected, double limit) {
  Comparison comparison;
  const bool f8 = expected.tensor().dtype == DType::kF8E4M3;
  for (size_t i = 0; i < std::min(got.Count(), expected.Count()); ++i) {
    const double a = got.At(i), b = expected.At(i);
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    double error = std::abs(a - b) / (f8 ? 1.0 + std::abs(b) : 1.0);
    if (std::isnan(error)) error = INFINITY;
    comparison.error = std::max(comparison.error, error);
    if (error <= limit || !comparison.ok) continue;
    comparison.ok = false;
    comparison.what = StrCat("code ", i, " is ", a, ", expected ", b);
  }
  return comparison;
}

namespace {

// Numbers of very different sizes, some groups zeros, and seldom one that is no number.
Array Sized(TestNoise& noise, DType type, int64_t rows, int64_t width, int64_t gap) {
  Array x(type, {rows, width + gap});
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t begin = 0; begin < width + gap; begin += 16) {
      const float size = Pick(noise, {1.0f, 1.0f, 0.01f, 300.0f, 0.0f});
      for (int64_t i = begin; i < std::min(begin + 16, width + gap); ++i)
        x.Set(static_cast<size_t>(row * (width + gap) + i), size * noise.Value());
    }
  }
  if (rows * width > 0 && noise.Below(4) == 0) {
    const float bad = Pick(
        noise, {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()});
    x.Set(static_cast<size_t>(noise.Below(rows) * (width + gap) + noise.Below(width)), bad);
  }
  return x;
}

}  // namespace

ConformanceCase<GroupQuant> MakeCase(const GroupQuant&, int number, TestNoise& noise) {
  ConformanceCase<GroupQuant> c;
  const bool gated = number % 2 == 1;
  c.desc = {.activation = FloatOf(number / 2),
            .codes = Pick(noise, {DType::kF8E4M3, DType::kF8E4M3, DType::kI8}),
            .width = Pick<int64_t>(noise, {1, 16, 100, 128, 200, 768, 2304}),
            .group = Pick<int64_t>(noise, {kCodeGroup, kCodeGroup, 16, 64, 256}),
            .gated = gated,
            .kind = gated ? Turn(number / 2, kActivations) : Activation::kSilu,
            .gate_scale = gated ? Pick(noise, {1.0f, 1.0f, 0.3f}) : 1.0f,
            .out_scale = gated ? Pick(noise, {1.0f, 1.0f, 0.7f}) : 1.0f,
            .parts = Pick(noise, {0, 0, 1, 3})};
  const DType type = c.desc.activation;
  // Powers of two, and codes beside them, are others where numbers differ by one rounding.
  c.desc.ue8m0 = (!gated || type == DType::kF32) && Flip(noise);
  const int64_t of_part = AnyTokens(number, noise);
  const int64_t rows = std::max(c.desc.parts, 1) * of_part, width = c.desc.width;
  std::vector<int32_t> count(static_cast<size_t>(c.desc.parts));
  for (int32_t& n : count) n = static_cast<int32_t>(noise.Below(of_part + 1));
  const int64_t gap = gated ? 0 : noise.Below(2) * 5;
  const double step = c.desc.codes == DType::kI8 ? kI8CodeStep : kF8CodeStep;
  const size_t x = c.Add(gated ? Filled(noise, type, {rows, 2 * width}, Pick(noise, {0.1f, 3.0f}))
                               : Sized(noise, type, rows, width, gap));
  const size_t counts = c.Add(Array::Ints(count));
  const size_t codes = c.Add(Untouched(c.desc.codes, {rows, width}), gated ? step : 0.0);
  if (gated || c.desc.codes == DType::kF8E4M3) c.comparers[codes] = &CompareCodes;
  Array room(c.desc.ScaleDType(), {c.desc.groups(), rows + 3});
  if (!c.desc.ue8m0) room.Fill(kUntouched);
  const double limit = c.desc.ue8m0 ? 0.0 : gated ? LimitFor(type, 3e-6) : 1e-30;
  const size_t scales = c.Add(std::move(room), limit);
  c.args = [=, desc = c.desc](ConformanceTarget&,
                              std::span<const Tensor> t) -> Result<GroupQuant::Args> {
    GroupQuant::Args args{.x = gated ? t[x] : Columns(t[x], width)};
    if (desc.parts > 0) args.counts = t[counts];
    args.codes = t[codes];
    args.scales = Columns(t[scales], rows);
    return args;
  };
  return c;
}

}  // namespace sluice::ops
