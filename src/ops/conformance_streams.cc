#include "ops/conformance_case.h"

namespace sluice::ops {
namespace {

// What the ops of residual streams have in common, drawn for a case of this number.
template <class Op>
struct Drawn {
  Drawn(ConformanceCase<Op>& c, int number, TestNoise& noise) {
    c.desc.activation = FloatOf(number);
    c.desc.streams = 2 + static_cast<int>(noise.Below(kStreamsMax - 1));
    c.desc.width = Pick<int64_t>(noise, {1, 15, 16, 33, 300, 2056});
    type = ResidualDType(c.desc.activation);
    tokens = AnyTokens(number, noise);
    all = c.desc.streams * c.desc.width;
    streams =
        c.Add(Filled(noise, type, {tokens, all + noise.Below(3) * 5}, 3.0f), LimitFor(type, 3e-6));
  }
  DType type = DType::kF32;
  int64_t tokens = 0, all = 0;
  size_t streams = 0;
};

}  // namespace

ConformanceCase<PredictStreams> MakeCase(const PredictStreams&, int number, TestNoise& noise) {
  ConformanceCase<PredictStreams> c;
  const Drawn<PredictStreams> drawn(c, number, noise);
  c.desc.add = Flip(noise);
  const int64_t tokens = drawn.tokens, n = c.desc.streams, width = c.desc.width;
  const size_t added =
      c.Add(Filled(noise, c.desc.activation, {tokens, width + noise.Below(2) * 3}));
  const size_t routes = c.Add(Filled(noise, DType::kF32, {tokens, n + noise.Below(2)}, 4.0f));
  const size_t table = c.Add(Filled(noise, DType::kF32, {n * n, n}));
  const size_t out = c.Add(Untouched(drawn.type, {tokens, width + 1}), LimitFor(drawn.type, 3e-6));
  const bool add = c.desc.add;
  c.args = [=](ConformanceTarget&, std::span<const Tensor> t) -> Result<PredictStreams::Args> {
    return PredictStreams::Args{.streams = Columns(t[drawn.streams], drawn.all),
                                .added = add ? Columns(t[added], width) : Tensor(),
                                .routes = Columns(t[routes], n),
                                .coefficients = t[table],
                                .out = Columns(t[out], width)};
  };
  return c;
}

ConformanceCase<CorrectStreams> MakeCase(const CorrectStreams&, int number, TestNoise& noise) {
  ConformanceCase<CorrectStreams> c;
  const Drawn<CorrectStreams> drawn(c, number, noise);
  c.desc.scaled = Flip(noise);
  const int64_t tokens = drawn.tokens, n = c.desc.streams, width = c.desc.width;
  const size_t x = c.Add(Filled(noise, drawn.type, {tokens, width + noise.Below(2) * 3}, 3.0f));
  const size_t routes = c.Add(Filled(noise, DType::kF32, {tokens, n + noise.Below(2)}, 4.0f));
  const size_t table = c.Add(Filled(noise, DType::kF32, {n, n}));
  const size_t scale = c.Add(Filled(noise, DType::kF32, {width}));
  // Of the first stream, once it is rounded.
  const size_t out = c.Add(Untouched(c.desc.activation, {tokens, width + 1}),
                           LimitFor(c.desc.activation, 3e-6) + LimitFor(drawn.type, 0.0));
  const bool scaled = c.desc.scaled;
  c.args = [=](ConformanceTarget&, std::span<const Tensor> t) -> Result<CorrectStreams::Args> {
    return CorrectStreams::Args{.streams = Columns(t[drawn.streams], drawn.all),
                                .x = Columns(t[x], width),
                                .routes = Columns(t[routes], n),
                                .coefficients = t[table],
                                .scale = scaled ? t[scale] : Tensor(),
                                .out = Columns(t[out], width)};
  };
  return c;
}

ConformanceCase<LevelStreams> MakeCase(const LevelStreams&, int number, TestNoise& noise) {
  ConformanceCase<LevelStreams> c;
  const Drawn<LevelStreams> drawn(c, number, noise);
  c.desc.mean = Flip(noise);
  // Some streams, or all, lie below the least mean square.
  if (noise.Below(4) == 0) {
    Array& streams = c.memory[drawn.streams];
    for (size_t i = 0; i < streams.Count(); i += noise.Below(3) == 0 ? 1 : 2)
      streams.Set(i, streams.At(i) * 0x1p-12f);
  }
  const int64_t width = c.desc.width;
  const size_t out =
      c.Add(Untouched(drawn.type, {drawn.tokens, width + 1}), LimitFor(drawn.type, 3e-6));
  const bool mean = c.desc.mean;
  c.args = [=](ConformanceTarget&, std::span<const Tensor> t) -> Result<LevelStreams::Args> {
    return LevelStreams::Args{.streams = Columns(t[drawn.streams], drawn.all),
                              .out = mean ? Columns(t[out], width) : Tensor()};
  };
  return c;
}

}  // namespace sluice::ops
