#include <algorithm>
#include <cmath>

#include "ops/conformance_case.h"

namespace sluice::ops {

ConformanceCase<RopeKv> MakeCase(const RopeKv&, int number, TestNoise& noise) {
  ConformanceCase<RopeKv> c;
  const int head_dim = Pick(noise, {16, 32, 64, 80, 128});
  const int rotary = Pick(noise, {0, head_dim, head_dim, head_dim / 2, head_dim / 4 * 2});
  c.desc = {.form = Pick(
                noise, {RopeKvForm::kPrefillQkvOut, RopeKvForm::kPrefillQOut, RopeKvForm::kDecode}),
            .activation = FloatBesideKv(number),
            .q_heads = Pick(noise, {1, 3, 9}),
            .kv_heads = Pick(noise, {1, 3, 3, 0}),
            .head_dim = head_dim,
            .rotary_dims = rotary,
            .interleaved = Flip(noise)};
  const int v_dim = Pick(noise, {head_dim, head_dim, head_dim, 0, head_dim / 2});
  c.desc.kv = {Turn(number, kKvFormats), c.desc.kv_heads, head_dim, v_dim,
               Pick(noise, {1, 16, 32})};
  const int64_t tokens = AnyTokens(number, noise), positions = 200;
  const int64_t blocks = tokens / c.desc.kv.kernel_block_tokens + 2;
  std::vector<int32_t> position, slot;
  for (int64_t t = 0; t < tokens; ++t) {
    position.push_back(static_cast<int32_t>(noise.Below(positions)));
    slot.push_back(t > 0 && noise.Below(4) == 0 ? -1 : static_cast<int32_t>(tokens - 1 - t));
  }
  const DType type = c.desc.activation, kv = c.desc.kv.dtype;
  const int64_t width = int64_t{c.desc.q_heads + 2 * c.desc.kv_heads} * head_dim;
  const bool keep = c.desc.form == RopeKvForm::kPrefillQkvOut;
  std::vector<double> frequencies;
  for (int i = 0; i < rotary / 2; ++i) frequencies.push_back(std::pow(1e4, -2.0 * i / rotary));
  Array rows(DType::kF32, {positions, rotary});
  FillRopeTable(frequencies, 1.0, positions, rows.tensor().ptr<float>());

  // Products and sums are those of the contract, so nothing may differ by a bit. Some numbers are
  // small, as 8-bit formats round those by other steps.
  Array heads = Filled(noise, type, {tokens, width + 4});
  for (size_t i = 0; i < heads.Count(); i += 3) heads.Set(i, heads.At(i) * 0x1p-8f);
  const size_t qkv = c.Add(std::move(heads));
  const size_t at = c.Add(Array::Ints(position));
  const size_t table = c.Add(std::move(rows));
  const size_t slots = c.Add(Array::Ints(slot));
  const size_t q_out = c.Add(Untouched(type, {tokens, c.desc.q_heads * int64_t{head_dim}}));
  const bool has_kv = c.desc.kv_heads > 0;
  const std::vector<int64_t> k_dims = {blocks, std::max(c.desc.kv_heads, 1),
                                       c.desc.kv.kernel_block_tokens, head_dim};
  const size_t k = c.Add(Untouched(kv, k_dims));
  const size_t v = c.Add(Untouched(kv, {k_dims[0], k_dims[1], k_dims[2], v_dim}));
  const size_t k_scale = c.Add(Untouched(DType::kF32, {k_dims[0], k_dims[1], k_dims[2]}));
  const size_t v_scale = c.Add(Untouched(DType::kF32, {k_dims[0], k_dims[1], k_dims[2]}));
  c.args = [=](ConformanceTarget&, std::span<const Tensor> t) -> Result<RopeKv::Args> {
    RopeKv::Args args{.qkv = Columns(t[qkv], width), .positions = t[at], .slots = t[slots]};
    if (rotary > 0) args.table = t[table];
    if (!keep) args.q_out = t[q_out];
    if (!has_kv) return args;
    args.kv.k = t[k];
    if (v_dim > 0) args.kv.v = t[v];
    if (KvHasScales(kv)) args.kv.k_scale = t[k_scale];
    if (KvHasScales(kv) && v_dim > 0) args.kv.v_scale = t[v_scale];
    return args;
  };
  return c;
}

// Norms add in another order, so that what is rotated is rounded the other way here and there.
ConformanceCase<NormedRopeKv> MakeCase(const NormedRopeKv&, int number, TestNoise& noise) {
  ConformanceCase<NormedRopeKv> c;
  const int head_dim = Pick(noise, {32, 64, 128, 128, 256});
  RopeKv::Desc& rope = c.desc.rope;
  rope = {.form = Pick(noise, {RopeKvForm::kPrefillQOut, RopeKvForm::kDecode}),
          .activation = FloatBesideKv(number),
          .q_heads = Pick(noise, {1, 3, 9}),
          .kv_heads = Pick(noise, {1, 3, 3, 0}),
          .head_dim = head_dim,
          .rotary_dims = Pick(noise, {head_dim, head_dim, head_dim / 2})};
  const int v_dim = Pick(noise, {head_dim, head_dim, 0, head_dim / 2});
  rope.kv = {Turn(number, kKvFormats), rope.kv_heads, head_dim, v_dim, Pick(noise, {1, 16})};
  c.desc.eps = 1e-6f;
  const int64_t tokens = AnyTokens(number, noise), positions = 200;
  const int64_t blocks = tokens / rope.kv.kernel_block_tokens + 2;
  std::vector<int32_t> position, slot;
  for (int64_t t = 0; t < tokens; ++t) {
    position.push_back(static_cast<int32_t>(noise.Below(positions)));
    slot.push_back(t > 0 && noise.Below(4) == 0 ? -1 : static_cast<int32_t>(tokens - 1 - t));
  }
  const DType type = rope.activation, kv = rope.kv.dtype;
  const int64_t width = int64_t{rope.q_heads + 2 * rope.kv_heads} * head_dim;
  std::vector<double> frequencies;
  for (int i = 0; i < rope.rotary_dims / 2; ++i)
    frequencies.push_back(std::pow(1e4, -2.0 * i / rope.rotary_dims));
  Array rows(DType::kF32, {positions, rope.rotary_dims});
  FillRopeTable(frequencies, 1.0, positions, rows.tensor().ptr<float>());
  const double off = 2 * LimitFor(type, 3e-6);
  const bool coded = KvHasScales(kv);
  const size_t qkv = c.Add(Filled(noise, type, {tokens, width + 4}));
  const size_t at = c.Add(Array::Ints(position)), table = c.Add(std::move(rows));
  const size_t slots = c.Add(Array::Ints(slot));
  const size_t q_out = c.Add(Untouched(type, {tokens, rope.q_heads * int64_t{head_dim}}), off);
  const bool has_kv = rope.kv_heads > 0;
  const std::vector<int64_t> k_dims = {blocks, std::max(rope.kv_heads, 1),
                                       rope.kv.kernel_block_tokens, head_dim};
  const double step = kv == DType::kI8 ? kI8CodeStep : kF8CodeStep;
  const size_t k = c.Add(Untouched(kv, k_dims), coded ? step : off + LimitFor(kv, 0.0));
  if (coded) c.comparers[k] = &CompareCodes;
  const size_t v = c.Add(Untouched(kv, {k_dims[0], k_dims[1], k_dims[2], v_dim}));
  const size_t k_scale = c.Add(Untouched(DType::kF32, {k_dims[0], k_dims[1], k_dims[2]}), off);
  const size_t v_scale = c.Add(Untouched(DType::kF32, {k_dims[0], k_dims[1], k_dims[2]}));
  const size_t norms = c.Add(Filled(noise, DType::kF32, {head_dim}));
  const size_t k_norms = c.Add(Filled(noise, DType::kF32, {head_dim}));
  c.args = [=](ConformanceTarget&, std::span<const Tensor> t) -> Result<NormedRopeKv::Args> {
    NormedRopeKv::Args args{.qkv = Columns(t[qkv], width),
                            .positions = t[at],
                            .table = t[table],
                            .slots = t[slots],
                            .q_out = t[q_out]};
    args.q_weight = t[norms];
    args.k_weight = t[k_norms];
    if (!has_kv) return args;
    args.kv.k = t[k];
    if (v_dim > 0) args.kv.v = t[v];
    if (coded) args.kv.k_scale = t[k_scale];
    if (coded && v_dim > 0) args.kv.v_scale = t[v_scale];
    return args;
  };
  return c;
}

}  // namespace sluice::ops
