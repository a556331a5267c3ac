#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/conformance_case.h"

namespace sluice::ops {

ConformanceCase<GatedActivation> MakeCase(const GatedActivation&, int number, TestNoise& noise) {
  ConformanceCase<GatedActivation> c;
  c.desc = {.kind = Turn(number, kActivations),
            .activation = FloatOf(number),
            .width = Pick<int64_t>(noise, {1, 15, 16, 33, 1536}),
            .gate_scale = Pick(noise, {1.0f, 1.0f, 0.3f}),
            .out_scale = Pick(noise, {1.0f, 1.0f, 0.7f})};
  const int64_t tokens = AnyTokens(number, noise);
  const DType type = c.desc.activation;
  const size_t in =
      c.Add(Filled(noise, type, {tokens, 2 * c.desc.width}, Pick(noise, {0.1f, 3.0f, 60.0f})));
  const size_t out = c.Add(Untouched(type, {tokens, c.desc.width}), LimitFor(type, 3e-6));
  c.args = [=](ConformanceTarget&, std::span<const Tensor> t) -> Result<GatedActivation::Args> {
    return GatedActivation::Args{.gate_up = t[in], .out = t[out]};
  };
  return c;
}

ConformanceCase<PlainActivation> MakeCase(const PlainActivation&, int number, TestNoise& noise) {
  ConformanceCase<PlainActivation> c;
  c.desc = {.kind = Turn(number, kPlainActivations),
            .activation = FloatOf(number),
            .width = Pick<int64_t>(noise, {1, 15, 16, 33, 1536})};
  const DType type = c.desc.activation;
  const int64_t width = c.desc.width;
  const size_t x = c.Add(
      Filled(noise, type, {AnyTokens(number, noise), width + 3}, Pick(noise, {0.1f, 3.0f, 60.0f})),
      LimitFor(type, 3e-6));
  c.args = [=](ConformanceTarget&, std::span<const Tensor> t) -> Result<PlainActivation::Args> {
    return PlainActivation::Args{.x = Columns(t[x], width)};
  };
  return c;
}

ConformanceCase<SoftCap> MakeCase(const SoftCap&, int number, TestNoise& noise) {
  ConformanceCase<SoftCap> c;
  c.desc = {.activation = FloatOf(number), .cap = Pick(noise, {0.5f, 30.0f, 50.0f})};
  const int64_t width = Pick<int64_t>(noise, {1, 17, 512});
  const size_t x = c.Add(Filled(noise, c.desc.activation, {AnyTokens(number, noise), width + 2},
                                Pick(noise, {0.01f, 2.0f, 300.0f})),
                         LimitFor(c.desc.activation, 1e-6));
  c.args = [=](ConformanceTarget&, std::span<const Tensor> t) -> Result<SoftCap::Args> {
    return SoftCap::Args{.x = Columns(t[x], width)};
  };
  return c;
}

ConformanceCase<GaussianTopK> MakeCase(const GaussianTopK&, int number, TestNoise& noise) {
  ConformanceCase<GaussianTopK> c;
  c.desc = {.activation = FloatOf(number),
            .width = Pick<int64_t>(noise, {1, 15, 16, 33, 1536}),
            .deviations = Pick(noise, {1.6448f, 0.3f, -0.5f})};
  const DType type = c.desc.activation;
  const int64_t width = c.desc.width;
  const size_t x =
      c.Add(Filled(noise, type, {AnyTokens(number, noise), width + 3}, Pick(noise, {0.1f, 3.0f})),
            LimitFor(type, 1e-5));
  c.args = [=](ConformanceTarget&, std::span<const Tensor> t) -> Result<GaussianTopK::Args> {
    return GaussianTopK::Args{.x = Columns(t[x], width)};
  };
  return c;
}

ConformanceCase<GatherRows> MakeCase(const GatherRows&, int number, TestNoise& noise) {
  ConformanceCase<GatherRows> c;
  c.desc = {.activation = FloatOf(number), .width = Pick<int64_t>(noise, {1, 30, 576})};
  const int64_t tokens = 1 + AnyTokens(number, noise), count = AnyTokens(number, noise);
  std::vector<int32_t> rows;
  for (int64_t i = 0; i < count; ++i) rows.push_back(static_cast<int32_t>(noise.Below(tokens)));
  const size_t x = c.Add(Filled(noise, c.desc.activation, {tokens, c.desc.width}));
  const size_t row = c.Add(Array::Ints(rows));
  const size_t out = c.Add(Untouched(c.desc.activation, {count, c.desc.width}));
  c.args = [=](ConformanceTarget&, std::span<const Tensor> t) -> Result<GatherRows::Args> {
    return GatherRows::Args{.x = t[x], .rows = t[row], .out = t[out]};
  };
  return c;
}

ConformanceCase<Pool> MakeCase(const Pool&, int number, TestNoise& noise) {
  ConformanceCase<Pool> c;
  c.desc = {.kind = Turn(number, kPoolKinds),
            .activation = FloatOf(number),
            .width = Pick<int64_t>(noise, {1, 30, 384})};
  std::vector<int32_t> start = {0};
  const int64_t sequences = Pick<int64_t>(noise, {1, 2, 9}), gap = noise.Below(3) * 5;
  for (int64_t s = 0; s < sequences; ++s)
    start.push_back(start.back() + static_cast<int32_t>(noise.Below(40)));
  const size_t x =
      c.Add(Filled(noise, c.desc.activation, {start.back() + noise.Below(3), c.desc.width + gap}));
  const size_t starts = c.Add(Array::Ints(start));
  const size_t out = c.Add(Untouched(DType::kF32, {sequences, c.desc.width}), 1e-6);
  c.args = [=, desc = c.desc](ConformanceTarget&, std::span<const Tensor> t) -> Result<Pool::Args> {
    return Pool::Args{.x = Columns(t[x], desc.width), .query_start = t[starts], .out = t[out]};
  };
  return c;
}

ConformanceCase<ResolveTokens> MakeCase(const ResolveTokens&, int number, TestNoise& noise) {
  ConformanceCase<ResolveTokens> c;
  const int64_t rows = Pick<int64_t>(noise, {1, 2, 9, 64});
  std::vector<int32_t> ids(static_cast<size_t>(AnyTokens(number, noise))), previous;
  for (int32_t& id : ids) {
    const int64_t row = noise.Below(rows);
    id = static_cast<int32_t>(Flip(noise) ? -1 - row : noise.Below(50000));
  }
  for (int64_t r = 0; r < rows; ++r) previous.push_back(static_cast<int32_t>(noise.Below(50000)));
  const size_t id = c.Add(Array::Ints(ids));
  const size_t row = c.Add(Array::Ints(previous));
  c.args = [=](ConformanceTarget&, std::span<const Tensor> t) -> Result<ResolveTokens::Args> {
    return ResolveTokens::Args{t[id], t[row]};
  };
  return c;
}

namespace {

// The paged KV of some sequences. All that no row sees is NaN, and blocks that none sees are -1.
struct History {
  Array table, k, v, k_scale, v_scale;
};

// Writes a row of noise into a cache and its scales; `row` counts tokens and KV heads.
void FillRow(TestNoise& noise, int64_t row, Array& cache, Array& scales) {
  const Tensor to = cache.tensor();
  std::vector<float> values(static_cast<size_t>(to.dims[3]));
  for (float& value : values) value = noise.Value();
  StoreKvRow(to.dtype, values.data(), static_cast<int>(values.size()), to.data, row * to.dims[3],
             scales.tensor().ptr<float>() + row);
}

History MakeHistory(const Attention::Desc& desc, const std::vector<int32_t>& start,
                    const std::vector<int32_t>& context, TestNoise& noise) {
  const int64_t block_tokens = desc.kv.kernel_block_tokens;
  const int64_t sequences = static_cast<int64_t>(context.size());
  int64_t blocks_max = 1, blocks = 0;
  for (int32_t tokens : context) {
    const int64_t need = (tokens + block_tokens - 1) / block_tokens;
    blocks_max = std::max(blocks_max, need);
    blocks += need;
  }
  // Ids fall, so that neighbours in a sequence are none in memory; two blocks belong to nobody, the
  // first being one of them or not.
  int32_t next = static_cast<int32_t>(blocks - noise.Below(2));
  std::vector<int32_t> table(static_cast<size_t>(sequences * blocks_max), -1);
  Array k(desc.kv.dtype, {blocks + 2, desc.kv_heads, block_tokens, desc.head_dim});
  Array k_scale(DType::kF32, {blocks + 2, desc.kv_heads, block_tokens});
  k.Fill(std::numeric_limits<float>::quiet_NaN());
  k_scale.Fill(std::numeric_limits<float>::quiet_NaN());
  Array v = k, v_scale = k_scale;
  for (int64_t s = 0; s < sequences; ++s) {
    const int32_t first_row = context[s] - (start[s + 1] - start[s]);
    for (int64_t p = FirstVisible(desc, first_row); p < context[s]; ++p) {
      int32_t& block = table[s * blocks_max + p / block_tokens];
      if (block < 0) block = next--;
      for (int h = 0; h < desc.kv_heads; ++h) {
        const int64_t row = (int64_t{block} * desc.kv_heads + h) * block_tokens + p % block_tokens;
        FillRow(noise, row, k, k_scale);
        FillRow(noise, row, v, v_scale);
        // Among positions that only the last rows see.
        if (p > first_row && IsPlainFloat(v.tensor().dtype) && noise.Below(60) == 0)
          v.Set(static_cast<size_t>(row * desc.head_dim + noise.Below(desc.head_dim)),
                std::numeric_limits<float>::quiet_NaN());
      }
    }
  }
  return {Array::Ints({sequences, blocks_max}, table), std::move(k), std::move(v),
          std::move(k_scale), std::move(v_scale)};
}

// What the poisoned position of a history holds.
enum class Poison { kNone, kInK, kInV };

// Makes one position that some rows see and, mostly, others don't (a later one of a prompt, or one
// that a window has passed) a NaN or an infinity in one cache.
Poison PoisonHistory(const Attention::Desc& desc, const std::vector<int32_t>& start,
                     const std::vector<int32_t>& context, TestNoise& noise, History& history) {
  const auto rows = [&](int64_t s) { return start[s + 1] - start[s]; };
  int64_t s = -1;  // with most rows
  for (size_t i = 0; i < context.size(); ++i) {
    if (rows(i) > 0 && (s < 0 || rows(i) > rows(s))) s = static_cast<int64_t>(i);
  }
  if (s < 0 || Flip(noise)) return Poison::kNone;
  const int64_t first_row = context[s] - rows(s);
  const bool passed = desc.window > 0 && Flip(noise);
  const int64_t p = passed ? FirstVisible(desc, first_row) : first_row + noise.Below(rows(s));
  const bool in_k = noise.Below(4) == 0;
  const Tensor table = history.table.tensor();
  const int64_t tokens = desc.kv.kernel_block_tokens;
  const int64_t block = table.ptr<int32_t>()[s * table.strides[0] + p / tokens];
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float bad = Pick(noise, {nan, std::numeric_limits<float>::infinity()});
  for (int64_t h = 0; h < desc.kv_heads; ++h) {
    const int64_t row = (block * desc.kv_heads + h) * tokens + p % tokens;
    if (KvHasScales(desc.kv.dtype)) {
      (in_k ? history.k_scale : history.v_scale).Set(static_cast<size_t>(row), nan);
    } else {
      const int64_t column = noise.Below(desc.head_dim);
      (in_k ? history.k : history.v).Set(static_cast<size_t>(row * desc.head_dim + column), bad);
    }
  }
  return in_k ? Poison::kInK : Poison::kInV;
}

// Compare where the expected number is finite. Where it is none, because of a bad V, the other may
// be no number either; a bad K may also count as unseen.
template <Poison kPoison>
Comparison ComparePoisoned(const Array& got, const Array& expected, double limit) {
  Array a = got, b = expected;
  for (size_t i = 0; i < std::min(a.Count(), b.Count()); ++i) {
    if (std::isfinite(b.At(i))) continue;
    if (kPoison == Poison::kInV && std::isfinite(a.At(i)))
      return {INFINITY, false, StrCat("element ", i, " is ", a.At(i), ", expected ", b.At(i))};
    a.Set(i, 0.0f);
    b.Set(i, 0.0f);
  }
  return Compare(a, b, limit);
}

// Paths of some sequences' last rows: [tokens, kPathNumbers] of trees of any form, the first branch
// being one row at least.
Array MakePaths(const std::vector<int32_t>& start, int64_t tokens, TestNoise& noise) {
  Array paths(DType::kI32, {tokens, kPathNumbers});
  for (size_t i = 0; i < paths.Count(); ++i) paths.Int(i) = 0;
  for (size_t s = 0; s + 1 < start.size(); ++s) {
    const int32_t most = std::min(start[s + 1] - start[s] - 1, kPathNumbers - 1);
    const int32_t drafts = std::min(most, static_cast<int32_t>(2 + noise.Below(7)));
    if (drafts < 2 || noise.Below(4) == 0) continue;
    const auto first = static_cast<int32_t>(1 + noise.Below(drafts));
    std::vector<int32_t> parents;
    for (int32_t row = 1; row <= drafts; ++row) {
      parents.push_back(row <= first ? row - 1
                                     : static_cast<int32_t>(noise.Below(std::min(row, first))));
      if (row > first + 1 && Flip(noise)) parents.back() = row - 1;
    }
    WritePaths(parents,
               paths.tensor().ptr<int32_t>() + int64_t{start[s + 1] - 1 - drafts} * kPathNumbers);
  }
  return paths;
}

Attention::Desc AnyAttention(int number, TestNoise& noise) {
  const int kv_heads = Pick(noise, {1, 2, 3}), group = Pick(noise, {1, 2, 3, 7});
  // Widths take turns too: the ends of heads that fill no vector are read by functions of their
  // own.
  const int head_dim = Turn(number, {20, Pick(noise, {64, 64, 80}), Pick(noise, {16, 32}),
                                     Pick(noise, {128, 128, 256, 512})});
  Attention::Desc desc = {.activation = FloatBesideKv(number),
                          .q_heads = kv_heads * group,
                          .kv_heads = kv_heads,
                          .head_dim = head_dim};
  // Kernels for KV like the rows are among the fastest.
  const DType kv = noise.Below(3) == 0 ? desc.activation : Turn(number, kKvFormats);
  desc.kv = {kv, kv_heads, head_dim, head_dim, Pick(noise, {1, 16, 16, 32, 100})};
  if (Flip(noise)) desc.scale = Pick(noise, {0.0f, 0.3f, 5.0f});
  desc.sinks = noise.Below(3) == 0;
  if (noise.Below(4) == 0) desc.soft_cap = Pick(noise, {2.0f, 50.0f});
  if (noise.Below(3) == 0) {
    desc.window = Pick(noise, {1, 16, 50, 64, 1000});
    desc.causal = noise.Below(6) != 0;
    desc.chunked = desc.causal && noise.Below(3) == 0;
  } else {
    desc.causal = noise.Below(4) != 0;
  }
  desc.alibi = desc.causal && noise.Below(4) == 0;
  if (noise.Below(6) == 0) desc.bias_buckets = Pick(noise, {4, 32});
  desc.paths = desc.causal && noise.Below(3) == 0;
  if (noise.Below(6) == 0) {
    desc.growth_tokens = Pick(noise, {1, 30});
    desc.growth_scale = 0.2f;
  }
  return desc;
}

}  // namespace

double AttentionBf16Error(const Attention::Desc& desc) {
  // Rounding to 8 bits is a relative error that is spread evenly within +-2^-8 / m for m in [1, 2):
  // 0.42 * 2^-8 by root mean square. q of +-2 times k of +-1 is 0.67, so a score of d such
  // products, both factors rounded, is off by 0.40 * 2^-8 * scale * sqrt(d). A row's output is off
  // by that and by the rounding of weights and V (0.42 * 2^-8 each), all three times V (0.58) and
  // times the length of the vector of weights, at most 1: 0.41 * 2^-8 where scale is 1 / sqrt(d).
  // Six times that is what none of the outputs passes.
  const double spread = ScaleOf(desc) * std::sqrt(static_cast<double>(desc.head_dim));
  return 2.5 * 0x1p-8 * std::max(1.0, spread);
}

ConformanceCase<Attention> MakeCase(const Attention&, int number, TestNoise& noise) {
  ConformanceCase<Attention> c;
  c.desc = AnyAttention(number, noise);
  const int head_dim = c.desc.head_dim;
  std::vector<int32_t> start = {0}, context;
  for (int64_t s = IsEmpty(number) ? 0 : 1 + noise.Below(4); s > 0; --s) {
    context.push_back(Pick(noise, {1, 2, 17, 64, 65, 100, 300, 520}));
    // The first has a row, so that each format has one.
    const int queries =
        std::max(Pick(noise, {0, 1, 1, 2, 5, 40, 1000}), context.size() == 1 ? 1 : 0);
    start.push_back(start.back() + std::min(queries, context.back()));
  }
  History history = MakeHistory(c.desc, start, context, noise);
  const Poison poison = PoisonHistory(c.desc, start, context, noise, history);
  const int64_t tokens = start.back() + noise.Below(3);  // the last rows are padding
  const size_t paths = c.Add(MakePaths(start, tokens, noise));
  const bool tree = c.desc.paths && noise.Below(4) != 0;
  const DType type = c.desc.activation;
  const std::vector<int64_t> shape = {tokens, int64_t{c.desc.q_heads} * head_dim};
  const size_t q = c.Add(Filled(noise, type, shape, 2.0f));
  const size_t starts = c.Add(Array::Ints(start));
  const size_t contexts = c.Add(Array::Ints(context));
  // Some above all scores, some below.
  const size_t sinks = c.Add(Filled(noise, DType::kF32, {c.desc.q_heads}, 6.0f));
  // Some of which leave far positions a weight, and some none.
  Array slopes_of_heads(DType::kF32, {c.desc.q_heads});
  for (size_t h = 0; h < slopes_of_heads.Count(); ++h)
    slopes_of_heads.Set(h, std::ldexp(1.0f, -static_cast<int>(noise.Below(9))));
  const size_t slopes = c.Add(std::move(slopes_of_heads));
  const size_t bias = c.Add(Filled(noise, DType::kF32, {c.desc.bias_buckets, c.desc.q_heads}, 2));
  const size_t ids = c.Add(std::move(history.table));
  const size_t k = c.Add(std::move(history.k));
  const size_t v = c.Add(std::move(history.v));
  const size_t k_scale = c.Add(std::move(history.k_scale));
  const size_t v_scale = c.Add(std::move(history.v_scale));
  const bool scales = KvHasScales(c.desc.kv.dtype);
  // An error of a score is a relative error of its weight, and grows with the score's size.
  const double spread = ScaleAt(c.desc, 520) * std::sqrt(static_cast<double>(head_dim));
  const double limit = 1e-6 * std::max(1.0, spread);
  const size_t out =
      c.Add(Untouched(type, shape), {LimitFor(type, limit), AttentionBf16Error(c.desc)});
  if (poison == Poison::kInK) c.comparers[out] = &ComparePoisoned<Poison::kInK>;
  if (poison == Poison::kInV) c.comparers[out] = &ComparePoisoned<Poison::kInV>;
  c.args = [=, desc = c.desc](ConformanceTarget&,
                              std::span<const Tensor> t) -> Result<Attention::Args> {
    Attention::Args args{
        .q = t[q], .query_start = t[starts], .context = t[contexts], .block_table = t[ids]};
    args.kv.k = t[k];
    args.kv.v = t[v];
    if (scales) args.kv.k_scale = t[k_scale];
    if (scales) args.kv.v_scale = t[v_scale];
    if (desc.sinks) args.sinks = t[sinks];
    if (desc.alibi) args.slopes = t[slopes];
    if (desc.bias_buckets > 0) args.bias = t[bias];
    if (tree) args.paths = t[paths];
    args.out = t[out];
    return args;
  };
  return c;
}

namespace {

// A row for each token: some of the positions up to its own, ascending.
Array MakeLists(const std::vector<int32_t>& start, const std::vector<int32_t>& context,
                int64_t tokens, int most, TestNoise& noise) {
  if (most == 0) return Array::Ints({tokens, 0}, {});
  std::vector<int32_t> lists(static_cast<size_t>(tokens * most), -1);
  for (size_t s = 0; s < context.size(); ++s) {
    for (int32_t t = start[s]; t < start[s + 1]; ++t) {
      int32_t* list = lists.data() + int64_t{t} * most;
      const int positions = context[s] - (start[s + 1] - t) + 1;
      int64_t wanted = std::min<int64_t>(positions, Flip(noise) ? most : 1 + noise.Below(most));
      for (int p = 0; p < positions && wanted > 0; ++p) {
        if (noise.Below(positions - p) >= wanted) continue;
        *list++ = p;
        --wanted;
      }
    }
  }
  return Array::Ints({tokens, most}, lists);
}

// Of one to three sequences, some of which are longer than a part that kernels cut.
void MakeSequences(int number, TestNoise& noise, std::vector<int32_t>* start,
                   std::vector<int32_t>* context) {
  *start = {0};
  for (int64_t s = IsEmpty(number) ? 0 : 1 + noise.Below(3); s > 0; --s) {
    context->push_back(Pick(noise, {1, 17, 65, 300}));
    start->push_back(start->back() + std::min(Pick(noise, {1, 1, 2, 20}), context->back()));
  }
}

}  // namespace

ConformanceCase<LatentAttention> MakeCase(const LatentAttention&, int number, TestNoise& noise) {
  ConformanceCase<LatentAttention> c;
  const int from = Turn(number, {16, 32, 64});
  c.desc = {.activation = FloatBesideKv(number),
            .heads = Pick(noise, {1, 4, 6, 16}),
            .key_width = from + Pick(noise, {32, 64, 512}),
            .scale = Pick(noise, {0.1f, 0.3f})};
  c.desc.value_width = c.desc.key_width - from;
  c.desc.kv = {Turn(number, kKvFormats), 1, c.desc.key_width, 0, Pick(noise, {1, 16, 100})};
  if (number % 3 == 2) {
    // What published models have, which is what the fastest kernels take.
    c.desc.activation = Turn(number / 3, {DType::kBF16, DType::kF16});
    c.desc.key_width = 576;
    c.desc.value_width = 512;
    c.desc.kv = {c.desc.activation, 1, 576, 0, Pick(noise, {16, 64})};
  }
  if (number / 3 % 2 == 1) c.desc.listed_max = Pick(noise, {1, 7, 64, 270});
  c.desc.paths = number % 3 != 2 && c.desc.listed_max == 0 && Flip(noise);
  std::vector<int32_t> start, context;
  MakeSequences(number, noise, &start, &context);
  History history = MakeHistory(WholeRows(c.desc), start, context, noise);
  const int64_t tokens = start.back() + noise.Below(3);  // the last rows are padding
  const size_t paths = c.Add(MakePaths(start, tokens, noise));
  const DType type = c.desc.activation;
  const size_t q =
      c.Add(Filled(noise, type, {tokens, int64_t{c.desc.heads} * c.desc.key_width}, 2.0f));
  const size_t starts = c.Add(Array::Ints(start));
  const size_t contexts = c.Add(Array::Ints(context));
  const size_t ids = c.Add(std::move(history.table));
  const size_t lists = c.Add(MakeLists(start, context, tokens, c.desc.listed_max, noise));
  const size_t k = c.Add(std::move(history.k));
  const size_t k_scale = c.Add(std::move(history.k_scale));
  // Twice that of attention: rows are up to four times as long.
  const double spread = c.desc.scale * std::sqrt(static_cast<double>(c.desc.key_width));
  const size_t out =
      c.Add(Untouched(type, {tokens, int64_t{c.desc.heads} * c.desc.value_width}),
            {LimitFor(type, 2e-6 * std::max(1.0, spread)), AttentionBf16Error(WholeRows(c.desc))});
  c.args = [=, desc = c.desc](ConformanceTarget&,
                              std::span<const Tensor> t) -> Result<LatentAttention::Args> {
    LatentAttention::Args args{
        .q = t[q], .query_start = t[starts], .context = t[contexts], .block_table = t[ids]};
    args.kv.k = t[k];
    if (KvHasScales(desc.kv.dtype)) args.kv.k_scale = t[k_scale];
    if (desc.listed_max > 0) args.listed = t[lists];
    if (desc.paths) args.paths = t[paths];
    args.out = t[out];
    return args;
  };
  return c;
}

ConformanceCase<IndexScores> MakeCase(const IndexScores&, int number, TestNoise& noise) {
  ConformanceCase<IndexScores> c;
  const int head_dim = Pick(noise, {16, 20, 64, 128});
  c.desc = {.activation = FloatBesideKv(number),
            .heads = number % 16 == 15 ? 2 : Pick(noise, {1, 3, 8, 64}),
            .head_dim = head_dim,
            .scale = Pick(noise, {0.01f, 0.1f, 1.0f})};
  c.desc.kv = {Turn(number, kKvFormats), 1, head_dim, 0, Pick(noise, {1, 16, 100})};
  std::vector<int32_t> start, context;
  MakeSequences(number, noise, &start, &context);
  if (number % 16 == 15) {  // a long one beside them
    context.push_back(33000);
    start.push_back(start.back() + 1);
  }
  Attention::Desc keys = {.q_heads = 1, .kv_heads = 1, .head_dim = head_dim, .kv = c.desc.kv};
  History history = MakeHistory(keys, start, context, noise);
  // Some of the step's rows, of which the last are padding.
  const int64_t all = start.back() + noise.Below(3);
  const int64_t first = all > 0 ? noise.Below(all) : 0;
  const int64_t rows = all > first ? 1 + noise.Below(all - first) : 0;
  const DType type = c.desc.activation;
  const size_t q = c.Add(Filled(noise, type, {rows, int64_t{c.desc.heads} * head_dim}));
  const size_t weights = c.Add(Filled(noise, DType::kF32, {rows, c.desc.heads}));
  const size_t starts = c.Add(Array::Ints(start));
  const size_t contexts = c.Add(Array::Ints(context));
  const size_t ids = c.Add(std::move(history.table));
  const size_t k = c.Add(std::move(history.k));
  const size_t k_scale = c.Add(std::move(history.k_scale));
  const int64_t longest =
      context.empty() ? 1 : *std::max_element(context.begin(), context.end()) + noise.Below(5);
  // Sums in F32 of numbers within 1 and of either sign: rounding moves one of n numbers by about n
  // times 2^-26, since what it has so far grows as the root of n. This is many times that of the
  // heads' products together and of their sum.
  const double dim = head_dim, heads = c.desc.heads;
  const double limit = 0x1p-23 * c.desc.scale * (dim * std::sqrt(heads) + heads * std::sqrt(dim));
  const size_t scores = c.Add(Untouched(DType::kF32, {rows, longest}), limit);
  const size_t lengths = c.Add(Array(DType::kI32, {rows}));
  c.args = [=, desc = c.desc](ConformanceTarget&,
                              std::span<const Tensor> t) -> Result<IndexScores::Args> {
    IndexScores::Args args{.q = t[q],
                           .weights = t[weights],
                           .first_row = first,
                           .query_start = t[starts],
                           .context = t[contexts],
                           .block_table = t[ids]};
    args.kv.k = t[k];
    if (KvHasScales(desc.kv.dtype)) args.kv.k_scale = t[k_scale];
    args.scores = t[scores];
    args.lengths = t[lengths];
    return args;
  };
  return c;
}

}  // namespace sluice::ops
