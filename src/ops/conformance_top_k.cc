#include <cmath>
#include <limits>

#include "ops/conformance_case.h"

namespace sluice::ops {

ConformanceCase<TopK> MakeCase(const TopK&, int number, TestNoise& noise) {
  ConformanceCase<TopK> c;
  c.desc.k = Pick(noise, {1, 2, 17, 64, 300, 2048});
  const int64_t rows = IsEmpty(number) ? 0 : 1 + noise.Below(5);
  const int64_t width = Pick(noise, {1, 16, 65, 300, 3000, 40000});
  Array scores = Filled(noise, DType::kF32, {rows, width}, 4.0f);
  // In most cases few different scores, so that many are equal to the least that is taken; zeros of
  // both signs, NaN and infinities among them.
  const float inf = std::numeric_limits<float>::infinity();
  const float odd[] = {0.0f, -0.0f, std::numeric_limits<float>::quiet_NaN(), inf, -inf};
  const float steps = Turn(number, {1.0f, 3.0f, 0.0f, 100.0f});
  for (size_t i = 0; i < scores.Count(); ++i) {
    if (steps > 0.0f) scores.Set(i, std::round(scores.At(i) * steps) / steps);
    if (noise.Below(20) == 0) scores.Set(i, Pick(noise, odd));
  }
  std::vector<int32_t> length;
  for (int64_t row = 0; row < rows; ++row)
    length.push_back(static_cast<int32_t>(row == 0 ? width : noise.Below(width + 1)));
  const size_t from = c.Add(std::move(scores));
  const size_t lengths = c.Add(Array::Ints(length));
  const size_t positions = c.Add(Array(DType::kI32, {rows, c.desc.k}));
  c.args = [=](ConformanceTarget&, std::span<const Tensor> t) -> Result<TopK::Args> {
    return TopK::Args{.scores = t[from], .lengths = t[lengths], .positions = t[positions]};
  };
  return c;
}

}  // namespace sluice::ops
