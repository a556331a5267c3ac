#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/conformance_case.h"

namespace sluice::ops {
namespace {

constexpr float kStateNan = std::numeric_limits<float>::quiet_NaN();
constexpr int32_t kNowhere = 2000000000;  // in entries of a table that nobody may follow

// The sequences of a call and their blocks: fresh ones, ones that go on in their block or from
// another, two that go on from the same block, and padding.
struct StateSequences {
  std::vector<int32_t> start = {0}, context, table;
  int64_t table_width = 1;
  std::vector<bool> is_read;  // by block; the others hold NaN
};

struct SequencePlace {
  int32_t context = 0, tokens = 0;
  bool has_block = true;
};

SequencePlace PlaceOf(int32_t block_tokens, bool may_be_padding, TestNoise& noise) {
  SequencePlace place;
  if (may_be_padding && noise.Below(6) == 0) return place;
  // At position 0, at a border between blocks, or anywhere.
  int64_t first = 0;
  if (noise.Below(3) != 0) first = noise.Below(3 * block_tokens);
  if (noise.Below(3) == 0) first = first / block_tokens * block_tokens;
  const int64_t room = block_tokens - first % block_tokens;
  place.tokens =
      static_cast<int32_t>(std::min(room, Pick<int64_t>(noise, {1, 1, 1, 2, 5, 16, 17, 40, 100})));
  place.context = static_cast<int32_t>(first) + place.tokens;
  place.has_block = !may_be_padding || noise.Below(6) != 0;
  return place;
}

StateSequences MakeStateSequences(int32_t block_tokens, bool empty, TestNoise& noise) {
  StateSequences all;
  std::vector<SequencePlace> places;
  for (int64_t s = empty ? 0 : 1 + noise.Below(5); s > 0; --s) {
    // The first has rows and a block, so that each format has some.
    places.push_back(PlaceOf(block_tokens, !places.empty(), noise));
    const SequencePlace& place = places.back();
    all.start.push_back(all.start.back() + place.tokens);
    all.context.push_back(place.context);
    all.table_width = std::max<int64_t>(all.table_width, 1 + place.context / block_tokens);
  }
  all.table.assign(places.size() * static_cast<size_t>(all.table_width), kNowhere);
  // Blocks are handed out from the last on; one belongs to nobody.
  int32_t next = static_cast<int32_t>(2 * places.size());
  all.is_read.assign(static_cast<size_t>(next) + 1, false);
  int32_t shared = -1;
  for (size_t s = 0; s < places.size(); ++s) {
    const auto& [context, tokens, has_block] = places[s];
    if (tokens == 0) continue;
    int32_t* row = all.table.data() + s * static_cast<size_t>(all.table_width);
    const int32_t first = context - tokens, write = (context - 1) / block_tokens;
    row[write] = next--;
    if (first > 0) {
      int32_t& read = row[(first - 1) / block_tokens];
      if (read == kNowhere) {
        const bool same = noise.Below(4) == 0;
        read = shared >= 0 && Flip(noise) ? shared : same ? row[write] : next--;
        if (!same && shared < 0) shared = read;
      }
      all.is_read[static_cast<size_t>(read)] = true;
    }
    // Without a block to write, or to read.
    if (!has_block) row[Flip(noise) || first == 0 ? write : (first - 1) / block_tokens] = -1;
  }
  return all;
}

// `numbers` of each block; NaN where nobody reads.
Array MakeState(const StateSequences& sequences, std::vector<int64_t> dims, TestNoise& noise) {
  dims.insert(dims.begin(), static_cast<int64_t>(sequences.is_read.size()));
  Array state = Filled(noise, DType::kF32, std::move(dims));
  const size_t numbers = state.Count() / sequences.is_read.size();
  for (size_t i = 0; i < state.Count(); ++i) {
    if (!sequences.is_read[i / numbers]) state.Set(i, kStateNan);
  }
  return state;
}

// Rows of activations and behind them `padding` rows of NaN.
Array MakeRows(DType type, int64_t tokens, int64_t padding, int64_t width, float scale,
               TestNoise& noise) {
  Array rows = Filled(noise, type, {tokens + padding, width}, scale);
  for (size_t i = static_cast<size_t>(tokens * width); i < rows.Count(); ++i)
    rows.Set(i, kStateNan);
  return rows;
}

// What a call says of its sequences.
struct SequenceArrays {
  size_t start = 0, context = 0, table = 0;
  template <class Op>
  SequenceArrays(const StateSequences& all, ConformanceCase<Op>& c)
      : start(c.Add(Array::Ints(all.start))),
        context(c.Add(Array::Ints(all.context))),
        table(c.Add(
            Array::Ints({static_cast<int64_t>(all.context.size()), all.table_width}, all.table))) {}
};

}  // namespace

ConformanceCase<ShortConv> MakeCase(const ShortConv&, int number, TestNoise& noise) {
  ConformanceCase<ShortConv> c;
  c.desc = {.activation = FloatOf(number),
            .channels = Pick<int64_t>(noise, {1, 5, 16, 31, 64, 100, 576, 3000}),
            .kernel = Turn(number, {4, Pick(noise, {2, 3}), 4, Pick(noise, {5, 7, 8})}),
            .block_tokens = Pick(noise, {1, 2, 16, 64, 500}),
            .states = Pick(noise, {1, 1, 2, 5, 9}),
            .gated = Flip(noise),
            .bias = Flip(noise)};
  const StateSequences all = MakeStateSequences(c.desc.block_tokens, IsEmpty(number), noise);
  const SequenceArrays sequences(all, c);
  const int64_t tokens = all.start.back(), padding = noise.Below(3), n = c.desc.channels;
  const int64_t width = c.desc.width();
  const DType type = c.desc.activation;
  const size_t x = c.Add(MakeRows(type, tokens, padding, width + noise.Below(3) * 5, 2.0f, noise));
  const size_t weight = c.Add(Filled(noise, DType::kF32, {n, c.desc.kernel}));
  const size_t bias = c.Add(Filled(noise, DType::kF32, {n}));
  // Rows are kept as they came, or times their gate, which is one product in F32.
  const size_t state =
      c.Add(MakeState(all, {int64_t{c.desc.states} * (c.desc.kernel - 1), n}, noise));
  const size_t out = c.Add(Untouched(type, {tokens + padding, n}), LimitFor(type, 1e-6));
  const bool has_bias = c.desc.bias;
  c.args = [=](ConformanceTarget&, std::span<const Tensor> t) -> Result<ShortConv::Args> {
    return ShortConv::Args{.x = Columns(t[x], width),
                           .weight = t[weight],
                           .bias = has_bias ? t[bias] : Tensor(),
                           .state = t[state],
                           .query_start = t[sequences.start],
                           .context = t[sequences.context],
                           .block_table = t[sequences.table],
                           .out = t[out]};
  };
  return c;
}

ConformanceCase<GatedDelta> MakeCase(const GatedDelta&, int number, TestNoise& noise) {
  ConformanceCase<GatedDelta> c;
  const int k_heads = Pick(noise, {1, 2, 3});
  c.desc = {.activation = FloatOf(number),
            .k_heads = k_heads,
            .v_heads = k_heads * Pick(noise, {1, 2, 3}),
            .k_head_dim = Turn(number, {Pick(noise, {16, 32, 64}), Pick(noise, {1, 6, 20, 75}), 128,
                                        Pick(noise, {64, 96, 256})}),
            .v_head_dim = Turn(number + number / 4,
                               {Pick(noise, {16, 32, 48}), 128, Pick(noise, {1, 20, 57}), 64}),
            .block_tokens = Pick(noise, {1, 2, 16, 64, 500}),
            .states = Pick(noise, {1, 1, 2, 5, 9})};
  const StateSequences all = MakeStateSequences(c.desc.block_tokens, IsEmpty(number), noise);
  const SequenceArrays sequences(all, c);
  const DType type = c.desc.activation;
  const int64_t tokens = all.start.back(), padding = noise.Below(3);
  const int64_t heads = c.desc.v_heads, v_width = heads * c.desc.v_head_dim;
  const int64_t width = 2 * int64_t{k_heads} * c.desc.k_head_dim + v_width;
  // Short vectors show what is added to their squares.
  const size_t qkv = c.Add(MakeRows(type, tokens, padding, width + noise.Below(3) * 5,
                                    Pick(noise, {2.0f, 2.0f, 0.002f}), noise));
  const size_t ba = c.Add(
      MakeRows(type, tokens, padding, 2 * heads + 3, Pick(noise, {2.0f, 5.0f, 60.0f}), noise));
  const size_t dt_bias = c.Add(Filled(noise, DType::kF32, {heads}));
  const size_t a_log = c.Add(Filled(noise, DType::kF32, {heads}, 3.0f));
  const double limit = 2e-6;
  const size_t state = c.Add(
      MakeState(all, {c.desc.states * heads, c.desc.k_head_dim, c.desc.v_head_dim}, noise), limit);
  const size_t out = c.Add(Untouched(type, {tokens + padding, v_width}), LimitFor(type, limit));
  c.args = [=](ConformanceTarget&, std::span<const Tensor> t) -> Result<GatedDelta::Args> {
    return GatedDelta::Args{.qkv = Columns(t[qkv], width),
                            .ba = Columns(t[ba], 2 * heads),
                            .dt_bias = t[dt_bias],
                            .a_log = t[a_log],
                            .state = t[state],
                            .query_start = t[sequences.start],
                            .context = t[sequences.context],
                            .block_table = t[sequences.table],
                            .out = t[out]};
  };
  return c;
}

ConformanceCase<Ssd> MakeCase(const Ssd&, int number, TestNoise& noise) {
  ConformanceCase<Ssd> c;
  const int k_heads = Pick(noise, {1, 2, 3});
  c.desc = {.activation = FloatOf(number),
            .k_heads = k_heads,
            .v_heads = k_heads * Pick(noise, {1, 2, 3}),
            .k_head_dim = Turn(number, {Pick(noise, {16, 32, 64}), Pick(noise, {1, 6, 20, 75}), 128,
                                        Pick(noise, {64, 96, 256})}),
            .v_head_dim = Turn(number + number / 4,
                               {Pick(noise, {16, 32, 48}), 128, Pick(noise, {1, 20, 57}), 64}),
            .block_tokens = Pick(noise, {1, 2, 16, 64, 500}),
            .states = Pick(noise, {1, 1, 2, 5, 9}),
            .steps = noise.Below(4) != 0,
            .skip = Flip(noise),
            .dt_scale = Pick(noise, {1.0f, 1.0f, 0.3f})};
  const StateSequences all = MakeStateSequences(c.desc.block_tokens, IsEmpty(number), noise);
  const SequenceArrays sequences(all, c);
  const DType type = c.desc.activation;
  const int64_t tokens = all.start.back(), padding = noise.Below(3);
  const int64_t heads = c.desc.v_heads, v_width = heads * c.desc.v_head_dim;
  const int64_t width = 2 * int64_t{k_heads} * c.desc.k_head_dim + v_width;
  const size_t vkq =
      c.Add(MakeRows(type, tokens, padding, width + noise.Below(3) * 5, 0.3f, noise));
  // Steps that are nearly 0, about 1, and as large as their sums.
  const size_t dt =
      c.Add(MakeRows(type, tokens, padding, heads + 3, Pick(noise, {1.0f, 1.0f, 5.0f}), noise));
  const size_t dt_bias = c.Add(Filled(noise, DType::kF32, {heads}, Pick(noise, {1.0f, 4.0f})));
  Array rates = Filled(noise, DType::kF32, {heads}, Pick(noise, {0.02f, 1.0f, 20.0f}));
  for (size_t i = 0; i < rates.Count(); ++i) rates.Set(i, -std::fabs(rates.At(i)));
  const size_t a = c.Add(std::move(rates));
  const size_t skip = c.Add(Filled(noise, DType::kF32, {heads}));
  // Each token multiplies the state by an exponential, which devices round by up to two units: up
  // to 2.4e-6 over the tokens of a case.
  const double limit = 5e-6;
  const size_t state = c.Add(
      MakeState(all, {c.desc.states * heads, c.desc.k_head_dim, c.desc.v_head_dim}, noise), limit);
  const size_t out = c.Add(Untouched(type, {tokens + padding, v_width}), LimitFor(type, limit));
  const bool has_steps = c.desc.steps, has_skip = c.desc.skip;
  c.args = [=](ConformanceTarget&, std::span<const Tensor> t) -> Result<Ssd::Args> {
    return Ssd::Args{.vkq = Columns(t[vkq], width),
                     .dt = has_steps ? Columns(t[dt], heads) : Tensor(),
                     .dt_bias = has_steps ? t[dt_bias] : Tensor(),
                     .a = t[a],
                     .skip = has_skip ? t[skip] : Tensor(),
                     .state = t[state],
                     .query_start = t[sequences.start],
                     .context = t[sequences.context],
                     .block_table = t[sequences.table],
                     .out = t[out]};
  };
  return c;
}

ConformanceCase<SelectiveScan> MakeCase(const SelectiveScan&, int number, TestNoise& noise) {
  ConformanceCase<SelectiveScan> c;
  c.desc = {.activation = FloatOf(number),
            .channels = Pick<int64_t>(noise, {1, 5, 16, 31, 64, 100, 576, 1500}),
            .state_size = Turn(number, {16, Pick(noise, {1, 3, 7, 8}), Pick(noise, {16, 20, 32}),
                                        Pick(noise, {57, 64, 100})}),
            .block_tokens = Pick(noise, {1, 2, 16, 64, 500}),
            .states = Pick(noise, {1, 1, 2, 5, 9})};
  const StateSequences all = MakeStateSequences(c.desc.block_tokens, IsEmpty(number), noise);
  const SequenceArrays sequences(all, c);
  const DType type = c.desc.activation;
  const int64_t tokens = all.start.back(), padding = noise.Below(3), n = c.desc.channels;
  const int64_t width = 2 * int64_t{c.desc.state_size};
  const size_t x = c.Add(MakeRows(type, tokens, padding, n + noise.Below(3) * 5, 0.5f, noise));
  // Steps that are nearly 0, about 1, and as large as their sums.
  const size_t dt = c.Add(MakeRows(type, tokens, padding, n + noise.Below(3) * 3,
                                   Pick(noise, {1.0f, 1.0f, 5.0f}), noise));
  const size_t bc = c.Add(MakeRows(type, tokens, padding, width + noise.Below(3) * 5, 0.5f, noise));
  const size_t dt_bias = c.Add(Filled(noise, DType::kF32, {n}, Pick(noise, {1.0f, 4.0f})));
  Array rates =
      Filled(noise, DType::kF32, {n, c.desc.state_size}, Pick(noise, {0.02f, 1.0f, 20.0f}));
  for (size_t i = 0; i < rates.Count(); ++i) rates.Set(i, -std::fabs(rates.At(i)));
  const size_t a = c.Add(std::move(rates));
  const size_t skip = c.Add(Filled(noise, DType::kF32, {n}));
  // Each token multiplies the state by exponentials of a product, which devices round by more than
  // that of Ssd: up to 4.2e-6 over the tokens of a case.
  const double limit = 6e-6;
  const size_t state =
      c.Add(MakeState(all, {int64_t{c.desc.states} * c.desc.state_size, n}, noise), limit);
  const size_t out = c.Add(Untouched(type, {tokens + padding, n}), LimitFor(type, limit));
  c.args = [=](ConformanceTarget&, std::span<const Tensor> t) -> Result<SelectiveScan::Args> {
    return SelectiveScan::Args{.x = Columns(t[x], n),
                               .dt = Columns(t[dt], n),
                               .bc = Columns(t[bc], width),
                               .dt_bias = t[dt_bias],
                               .a = t[a],
                               .skip = t[skip],
                               .state = t[state],
                               .query_start = t[sequences.start],
                               .context = t[sequences.context],
                               .block_table = t[sequences.table],
                               .out = t[out]};
  };
  return c;
}

}  // namespace sluice::ops
