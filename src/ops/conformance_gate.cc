#include "ops/conformance_case.h"

namespace sluice::ops {

ConformanceCase<GatedNorm> MakeCase(const GatedNorm&, int number, TestNoise& noise) {
  ConformanceCase<GatedNorm> c;
  c.desc = {.activation = FloatOf(number),
            .heads = Pick(noise, {1, 3, 9, 32}),
            .head_dim = Pick(noise, {1, 20, 64, 80, 128, 300}),
            .eps = Pick(noise, {1e-6f, 1e-3f}),
            .gate_first = Flip(noise),
            .gate_scale = Pick(noise, {1.0f, 1.0f, 0.3f}),
            .out_scale = Pick(noise, {1.0f, 1.0f, 0.7f})};
  c.desc.norm = !c.desc.gate_first || Flip(noise);
  if (c.desc.gate_first && Flip(noise)) c.desc.head_dim = Pick(noise, {1024, 1500});
  const DType type = c.desc.activation;
  const int64_t tokens = AnyTokens(number, noise);
  const int64_t width = int64_t{c.desc.heads} * c.desc.head_dim;
  const double limit = LimitFor(type, 1e-6);
  const bool in_place = Flip(noise), norm = c.desc.norm;
  const size_t x =
      c.Add(Filled(noise, type, {tokens, width + noise.Below(3) * 5}, Pick(noise, {0.01f, 2.0f})),
            in_place ? limit : 0.0);
  const size_t gate = c.Add(
      Filled(noise, type, {tokens, width + noise.Below(2) * 7}, Pick(noise, {1.0f, 5.0f, 90.0f})));
  const size_t weight = c.Add(Filled(noise, DType::kF32, {c.desc.weights()}));
  const size_t out = c.Add(Untouched(type, {tokens, width + 1}), limit);
  c.args = [=](ConformanceTarget&, std::span<const Tensor> t) -> Result<GatedNorm::Args> {
    return GatedNorm::Args{.x = Columns(t[x], width),
                           .gate = Columns(t[gate], width),
                           .weight = norm ? t[weight] : Tensor(),
                           .out = Columns(t[in_place ? x : out], width)};
  };
  return c;
}

ConformanceCase<SigmoidGateScaleAdd> MakeCase(const SigmoidGateScaleAdd&, int number,
                                              TestNoise& noise) {
  ConformanceCase<SigmoidGateScaleAdd> c;
  const DType type = FloatOf(number), out_type = Flip(noise) ? type : DType::kF32;
  c.desc = {
      .activation = type, .out = out_type, .width = Pick<int64_t>(noise, {1, 15, 16, 33, 2056})};
  const int64_t tokens = AnyTokens(number, noise), width = c.desc.width;
  const bool in_place = Flip(noise);
  const size_t x = c.Add(Filled(noise, type, {tokens, width + noise.Below(3) * 5}, 4.0f));
  const size_t gate = c.Add(Filled(noise, DType::kF32, {tokens, 1 + noise.Below(2) * 2},
                                   Pick(noise, {1.0f, 5.0f, 90.0f})));
  const size_t residual = c.Add(Filled(noise, out_type, {tokens, width + noise.Below(2) * 7}),
                                in_place ? LimitFor(out_type, 1e-6) : 0.0);
  const size_t out = c.Add(Untouched(out_type, {tokens, width}), LimitFor(out_type, 1e-6));
  c.args = [=](ConformanceTarget&, std::span<const Tensor> t) -> Result<SigmoidGateScaleAdd::Args> {
    const Tensor sums = Columns(t[residual], width);
    return SigmoidGateScaleAdd::Args{.x = Columns(t[x], width),
                                     .gate = Columns(t[gate], 1),
                                     .residual = sums,
                                     .out = in_place ? sums : t[out]};
  };
  return c;
}

ConformanceCase<SigmoidGate> MakeCase(const SigmoidGate&, int number, TestNoise& noise) {
  ConformanceCase<SigmoidGate> c;
  c.desc = {.activation = FloatOf(number), .width = Pick<int64_t>(noise, {1, 15, 16, 33, 2056})};
  const DType type = c.desc.activation;
  const int64_t tokens = AnyTokens(number, noise), width = c.desc.width;
  const size_t x =
      c.Add(Filled(noise, type, {tokens, width + noise.Below(3) * 5}, 4.0f), LimitFor(type, 1e-6));
  const size_t gate = c.Add(
      Filled(noise, type, {tokens, width + noise.Below(2) * 7}, Pick(noise, {1.0f, 5.0f, 90.0f})));
  c.args = [=](ConformanceTarget&, std::span<const Tensor> t) -> Result<SigmoidGate::Args> {
    return SigmoidGate::Args{.x = Columns(t[x], width), .gate = Columns(t[gate], width)};
  };
  return c;
}

}  // namespace sluice::ops
