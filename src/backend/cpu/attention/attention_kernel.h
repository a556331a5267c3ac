// Attention of a tile of query rows over paged KV, for any F32x16 `V` and KV type `Kv`. `kRows` and
// `kColumns` size the register tile: rows by vectors of sixteen. See kernels.h for the arithmetic.
#pragma once

#include "backend/cpu/attention/kernels.h"
#include "backend/cpu/simd/half.h"
#include "backend/cpu/simd/math.h"

namespace sluice::cpu {

// Shapes of register tiles: C[row, column] += sum over i of A[row, i] * B[i, column], each C one
// chain of fused multiply-adds over ascending i.
template <class V>
struct RegisterTile {
  static constexpr int kLanes = 16;

  // Never inlined: in a larger function GCC keeps some of the sums in memory.
  template <int R, int C>
  [[gnu::noinline]] static void Multiply(const float* const* a, const float* b, int64_t b_stride,
                                         int count, float* const* c, bool accumulate) {
    V sum[R][C];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
      for (int j = 0; j < C; ++j) sum[r][j] = accumulate ? V::Load(c[r] + j * kLanes) : V::Zero();
    }
    for (int i = 0; i < count; ++i) {
      V column[C];
#pragma GCC unroll 4
      for (int j = 0; j < C; ++j) column[j] = V::Load(b + i * b_stride + j * kLanes);
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        const V x = V::Set1(a[r][i]);
#pragma GCC unroll 4
        for (int j = 0; j < C; ++j) sum[r][j] = V::Fma(x, column[j], sum[r][j]);
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
      for (int j = 0; j < C; ++j) sum[r][j].Store(c[r] + j * kLanes);
    }
  }

  template <int C>
  static void MultiplyRows(int rows, const float* const* a, const float* b, int64_t b_stride,
                           int count, float* const* c, bool accumulate) {
    switch (rows) {
      case 1:
        return Multiply<1, C>(a, b, b_stride, count, c, accumulate);
      case 2:
        return Multiply<2, C>(a, b, b_stride, count, c, accumulate);
      case 3:
        return Multiply<3, C>(a, b, b_stride, count, c, accumulate);
      case 4:
        return Multiply<4, C>(a, b, b_stride, count, c, accumulate);
      case 5:
        return Multiply<5, C>(a, b, b_stride, count, c, accumulate);
      default:
        return Multiply<6, C>(a, b, b_stride, count, c, accumulate);
    }
  }
};

template <class V, class Kv, int kColumns>
struct TileAttention {
  static constexpr int kLanes = 16;
  static constexpr int kRows = 6;
  // Whose scores are in memory at a time, so that they stay in the L1 cache beside V.
  static constexpr int kScoreRows = 48;
  static constexpr int kBlockVectors = kBlockTokens / kLanes;
  static constexpr float kOffsets[kLanes] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

  // The state of a tile's rows inside a buffer.
  struct State {
    State(const AttentionCall& call, float* p)
        : largest(p), weight(p + call.rows_max), sums(p + 2 * call.rows_max) {}
    float* largest;  // [rows]
    float* weight;   // [rows]
    float* sums;     // [rows, head_dim]
  };

  using Range = BlockRange;

  // K or V of one position; null if no row sees it.
  struct Row {
    const Kv* data = nullptr;
    const float* scale = nullptr;  // of codes

    V Load(int d) const {
      if constexpr (kIsCode<Kv>) return V::Load(data + d) * V::Set1(*scale * Kv::kUnit);
      return V::Load(data + d);
    }
  };

  // Calls body(offset, row) for the offsets of `range` in the block at `block`.
  template <class Body>
  static void ForPositions(const AttentionCall& call, const AttentionTile& tile,
                           const AttentionCache& cache, int64_t block, Range range,
                           const Body& body) {
    ForRuns(call, tile, block, range, [&](int i, int64_t kernel_block, int64_t row, int count) {
      const Kv* data = static_cast<const Kv*>(cache.data) + kernel_block * cache.stride;
      for (int j = 0; j < count; ++j) {
        Row at = {data + (row + j) * call.head_dim};
        if constexpr (kIsCode<Kv>)
          at.scale = cache.scales + kernel_block * cache.scale_stride + row + j;
        body(i + j, at);
      }
    });
  }

  // Brings the rows of a block into the cache while the block before it is worked on.
  static void Prefetch(const AttentionCall& call, const AttentionTile& tile,
                       const AttentionCache& cache, int64_t block, Range range) {
    ForPositions(call, tile, cache, block, range, [&](int, Row row) {
      const char* bytes = reinterpret_cast<const char*>(row.data);
      for (size_t at = 0; at < call.head_dim * sizeof(Kv); at += 64)
        __builtin_prefetch(bytes + at, 0, 2);
      if constexpr (kIsCode<Kv>) __builtin_prefetch(row.scale, 0, 2);
    });
  }

  // out[dim, offset] = K[offset, dim]; offsets outside `range` are 0 and not read.
  static void LoadK(const AttentionCall& call, const AttentionTile& tile, int64_t block,
                    Range range, float* out) {
    Row rows[kBlockTokens];
    ForPositions(call, tile, call.k, block, range, [&](int i, Row row) { rows[i] = row; });
    for (int part = 0; part < kBlockTokens; part += kLanes) {
      if (part >= range.end || part + kLanes <= range.first) {
        for (int d = 0; d < call.head_dim; ++d) V::Zero().Store(out + d * kBlockTokens + part);
        continue;
      }
      for (int d = 0; d < call.head_dim; d += kLanes) {
        V square[kLanes];
#pragma GCC unroll 16
        for (int i = 0; i < kLanes; ++i) {
          const Row row = rows[part + i];
          square[i] = row.data != nullptr ? row.Load(d) : V::Zero();
        }
        V::Transpose(square);
#pragma GCC unroll 16
        for (int i = 0; i < kLanes; ++i) square[i].Store(out + (d + i) * kBlockTokens + part);
      }
    }
  }

  // out[offset, dim] = V[offset, dim] for the offsets of `range`.
  static void LoadV(const AttentionCall& call, const AttentionTile& tile, int64_t block,
                    Range range, float* out) {
    const int64_t dims = call.head_dim;
    ForPositions(call, tile, call.v, block, range, [&](int i, Row row) {
      for (int64_t d = 0; d < dims; d += kLanes) row.Load(d).Store(out + i * dims + d);
    });
  }

  // What becomes of a row's products q.k over a block: `scale` times them, more by `bias` (null:
  // nothing), and less by `slope` for each position from the block's first, which lies `distance`
  // behind the row's own, to the row's.
  struct Terms {
    float scale = 0.0f, slope = 0.0f, distance = 0.0f;
    const float* bias = nullptr;
  };
  static Terms TermsOf(const AttentionCall& call, const AttentionTile& tile, int row,
                       int64_t block) {
    const int64_t position = tile.position + row / call.group;
    const int64_t head = int64_t{tile.kv_head} * call.group + row % call.group;
    Terms terms = {call.scale, 0.0f, static_cast<float>(position - block)};
    if (call.slopes != nullptr) terms.slope = call.slopes[head];
    if (call.bias != nullptr) {
      terms.bias = call.bias + head * 2 * call.bias_tokens + call.bias_tokens + (block - position);
    }
    if (call.growth_tokens > 0) {
      const float steps = static_cast<float>((position + 1) / call.growth_tokens);
      terms.scale *= 1.0f + call.growth_scale * __builtin_logf(1.0f + steps);
    }
    return terms;
  }

  // Scales a row's scores, adds its biases, and gives their largest; -infinity where the row does
  // not see. `kAll`: it sees the whole block.
  template <bool kAll>
  static float Scale(const AttentionCall& call, const Terms& terms, Range range, float* scores) {
    V s[kBlockVectors];
#pragma GCC unroll 4
    for (int i = 0; i < kBlockVectors; ++i)
      s[i] = V::Load(scores + i * kLanes) * V::Set1(terms.scale);
    if (terms.bias != nullptr) {
      for (int i = 0; i < kBlockVectors; ++i) s[i] = s[i] + V::Load(terms.bias + i * kLanes);
    }
    if (call.soft_cap > 0.0f) {
      for (V& x : s) x = V::Set1(call.soft_cap) * Tanh(x / V::Set1(call.soft_cap));
    }
    if (terms.slope != 0.0f) {
      for (int i = 0; i < kBlockVectors; ++i) {
        const V offset = V::Load(kOffsets) + V::Set1(static_cast<float>(i * kLanes));
        s[i] = V::Fma(offset - V::Set1(terms.distance), V::Set1(terms.slope), s[i]);
      }
    }
#pragma GCC unroll 4
    for (int i = 0; i < kBlockVectors; ++i) {
      if constexpr (!kAll) s[i] = Clip(s[i], range, i, V::Set1(-__builtin_inff()));
      s[i].Store(scores + i * kLanes);
    }
    return V::Max(V::Max(s[3], s[2]), V::Max(s[1], s[0])).Largest();
  }

  // Turns a row's scaled scores into weights and gives their sum.
  template <bool kAll>
  static float Weigh(Range range, float largest, float* scores) {
    V s[kBlockVectors];
#pragma GCC unroll 4
    for (int i = 0; i < kBlockVectors; ++i) {
      s[i] = Exp(V::Load(scores + i * kLanes) - V::Set1(largest));
      if constexpr (!kAll) s[i] = Clip(s[i], range, i, V::Zero());
      s[i].Store(scores + i * kLanes);
    }
    return ((s[0] + s[1]) + (s[2] + s[3])).Sum();
  }

  // Turns the scores of up to kLanes rows, from `first` on, into weights and brings the rows' state
  // up to them. Step by step for all rows, since each step waits for a sum across lanes.
  static void Softmax(const AttentionCall& call, const AttentionTile& tile, int64_t block,
                      const Range* ranges, int first, int rows, float* scores, const State& state) {
    alignas(64) float next[kLanes] = {}, sums[kLanes] = {}, fades[kLanes];
    for (int r = 0; r < rows; ++r) {
      float* row = scores + r * kBlockTokens;
      const Terms terms = TermsOf(call, tile, first + r, block);
      next[r] = ranges[r].full() ? Scale<true>(call, terms, ranges[r], row)
                                 : Scale<false>(call, terms, ranges[r], row);
    }
    const V old_largest = V::LoadFirst(state.largest + first, rows);
    const V largest = V::Max(V::Load(next), old_largest);
    largest.Store(next);
    for (int r = 0; r < rows; ++r) {
      float* row = scores + r * kBlockTokens;
      // Where an infinite K leaves a row no score but -infinity, each weighs nothing.
      const float zero = next[r] == -__builtin_inff() ? 0.0f : next[r];
      sums[r] =
          ranges[r].full() ? Weigh<true>(ranges[r], zero, row) : Weigh<false>(ranges[r], zero, row);
    }
    const V fade = Exp(old_largest - largest);
    fade.Store(fades);
    const V sum = V::Load(sums);
    const uint32_t begun = V::Above(old_largest, V::Set1(-__builtin_inff()));
    V::Choose(begun, V::LoadFirst(state.weight + first, rows) * fade + sum, sum)
        .StoreFirst(state.weight + first, rows);
    largest.StoreFirst(state.largest + first, rows);
    const uint32_t fading = begun & ~V::Equal(old_largest, largest);
    if (fading == 0) return;
    for (int r = 0; r < rows; ++r) {
      if ((fading >> r & 1) == 0) continue;
      float* row = state.sums + int64_t{first + r} * call.head_dim;
      for (int d = 0; d < call.head_dim; d += kLanes)
        (V::Load(row + d) * V::Set1(fades[r])).Store(row + d);
    }
  }

  // Lanes of vector `i` of a block that lie in `range`; `other` elsewhere.
  static V Clip(V x, Range range, int i, V other) {
    return V::InRange(x, InVector(range.first, i), InVector(range.end, i), other);
  }
  static int InVector(int offset, int i) {
    const int lane = offset - i * kLanes;
    return lane < 0 ? 0 : lane < kLanes ? lane : kLanes;
  }

  // sums[row] += weights[row] V over [first, end) for up to kRows rows.
  static void AddV(const AttentionCall& call, int rows, float* const* weights, float* const* sums,
                   const float* v, int first, int end) {
    if (first >= end) return;
    const float* a[kRows];
    float* c[kRows];
    for (int r = 0; r < rows; ++r) a[r] = weights[r] + first;
    const float* b = v + int64_t{first} * call.head_dim;
    int d = 0;
    for (; d + kColumns * kLanes <= call.head_dim; d += kColumns * kLanes) {
      for (int r = 0; r < rows; ++r) c[r] = sums[r] + d;
      RegisterTile<V>::template MultiplyRows<kColumns>(rows, a, b + d, call.head_dim, end - first,
                                                       c, true);
    }
    if constexpr (kColumns > 2) {
      for (; d + 2 * kLanes <= call.head_dim; d += 2 * kLanes) {  // heads of 32
        for (int r = 0; r < rows; ++r) c[r] = sums[r] + d;
        RegisterTile<V>::template MultiplyRows<2>(rows, a, b + d, call.head_dim, end - first, c,
                                                  true);
      }
    }
    for (; d < call.head_dim; d += kLanes) {
      for (int r = 0; r < rows; ++r) c[r] = sums[r] + d;
      RegisterTile<V>::template MultiplyRows<1>(rows, a, b + d, call.head_dim, end - first, c,
                                                true);
    }
  }

  // scores[row - first] of rows [first, end) of the tile.
  static void Scores(const AttentionCall& call, const AttentionTile& tile, int first, int end,
                     const float* k, float* scores) {
    for (int row = first; row < end; row += kRows) {
      const int rows = end - row < kRows ? end - row : kRows;
      const float* q[kRows];
      int token = row / call.group, head = row % call.group;
      for (int r = 0; r < rows; ++r) {
        q[r] = call.q + (tile.token + token) * call.q_stride +
               (int64_t{tile.kv_head} * call.group + head) * call.head_dim;
        if (++head == call.group) head = 0, ++token;
      }
      for (int column = 0; column < kBlockTokens; column += kColumns * kLanes) {
        float* c[kRows];
        for (int r = 0; r < rows; ++r) c[r] = scores + (row - first + r) * kBlockTokens + column;
        RegisterTile<V>::template MultiplyRows<kColumns>(rows, q, k + column, kBlockTokens,
                                                         call.head_dim, c, false);
      }
    }
  }

  // sums[row] += weights[row] V for up to kRows rows. A row never meets V that it does not see, not
  // even with weight 0: 0 * NaN is no 0.
  static void AddSeenV(const AttentionCall& call, const Range* ranges, int rows,
                       float* const* weights, float* const* sums, const float* v) {
    Range common = {0, kBlockTokens};
    for (int r = 0; r < rows; ++r) {
      if (ranges[r].first > common.first) common.first = ranges[r].first;
      if (ranges[r].end < common.end) common.end = ranges[r].end;
    }
    if (common.empty()) {
      for (int r = 0; r < rows; ++r)
        AddV(call, 1, weights + r, sums + r, v, ranges[r].first, ranges[r].end);
      return;
    }
    for (int r = 0; r < rows; ++r)
      AddV(call, 1, weights + r, sums + r, v, ranges[r].first, common.first);
    AddV(call, rows, weights, sums, v, common.first, common.end);
    for (int r = 0; r < rows; ++r)
      AddV(call, 1, weights + r, sums + r, v, common.end, ranges[r].end);
  }

  // Rows [first, end) of the tile over one block: scores, weights, sums. `full`: every row sees all
  // of it. `scores` [kScoreRows, kBlockTokens].
  static void Rows(const AttentionCall& call, const AttentionTile& tile, int64_t block, bool full,
                   Range rows, const float* k, const float* v, float* scores, const State& state) {
    Scores(call, tile, rows.first, rows.end, k, scores);
    constexpr int kStep = kLanes / kRows * kRows;
    for (int first = rows.first; first < rows.end; first += kStep) {
      const int count = rows.end - first < kStep ? rows.end - first : kStep;
      Range ranges[kStep];
      float* weights[kStep];
      float* sums[kStep];
      for (int r = 0; r < count; ++r) {
        ranges[r] =
            full ? Range{0, kBlockTokens} : RangeOf(call, tile, (first + r) / call.group, block);
        weights[r] = scores + (first - rows.first + r) * kBlockTokens;
        sums[r] = state.sums + int64_t{first + r} * call.head_dim;
      }
      Softmax(call, tile, block, ranges, first, count, weights[0], state);
      for (int r = 0; r < count; r += kRows) {
        const int group = count - r < kRows ? count - r : kRows;
        AddSeenV(call, ranges + r, group, weights + r, sums + r, v);
      }
    }
  }

  // The offsets that some row of the tile sees.
  static Range TileRange(const AttentionCall& call, const AttentionTile& tile, int64_t block) {
    return {RangeOf(call, tile, 0, block).first, RangeOf(call, tile, tile.tokens - 1, block).end};
  }

  // Of the block that follows, which is at `block` if it is of the same split.
  static void AskForNextK(const AttentionCall& call, const AttentionTile& tile, int64_t block,
                          int64_t end, const AttentionAhead& ahead) {
    const Range range = TileRange(call, tile, block);
    if (block < end && !range.empty()) return Prefetch(call, tile, call.k, block, range);
    if (ahead.tile == nullptr) return;
    Prefetch(call, *ahead.tile, call.k, ahead.block, TileRange(call, *ahead.tile, ahead.block));
  }

  static void Begin(const AttentionCall&, const AttentionTile&, float*) {}

  static int64_t WorkFloats(const AttentionCall& call) {
    return int64_t{2} * kBlockTokens * call.head_dim + int64_t{kScoreRows} * kBlockTokens;
  }

  static void Split(const AttentionCall& call, const AttentionTile& tile, int64_t split,
                    const AttentionAhead& ahead, float* state_floats, float* work) {
    const State state(call, state_floats);
    const int rows = tile.tokens * call.group;
    for (int r = 0; r < rows; ++r) {
      state.largest[r] = -__builtin_inff();
      state.weight[r] = 0.0f;
    }
    for (int64_t i = 0; i < int64_t{rows} * call.head_dim; i += kLanes)
      V::Zero().Store(state.sums + i);
    float* k = work;
    float* v = k + int64_t{kBlockTokens} * call.head_dim;
    float* scores = v + int64_t{kBlockTokens} * call.head_dim;
    const int64_t end = (split + 1) * kSplitTokens;
    for (int64_t block = split * kSplitTokens; block < end; block += kBlockTokens) {
      const Range range = TileRange(call, tile, block);
      if (range.empty()) continue;
      Prefetch(call, tile, call.v, block, range);
      LoadK(call, tile, block, range, k);
      AskForNextK(call, tile, block + kBlockTokens, end, ahead);
      LoadV(call, tile, block, range, v);
      // Sights only move forward with the position, so the first and last tokens tell.
      int first = 0, last = tile.tokens;
      while (RangeOf(call, tile, first, block).empty()) ++first;
      while (RangeOf(call, tile, last - 1, block).empty()) --last;
      const bool full = RangeOf(call, tile, first, block).end == kBlockTokens &&
                        RangeOf(call, tile, last - 1, block).first == 0;
      const int end_row = last * call.group;
      for (int row = first * call.group; row < end_row; row += kScoreRows) {
        const int left = end_row - row;
        const Range part = {row, row + (left < kScoreRows ? left : kScoreRows)};
        Rows(call, tile, block, full, part, k, v, scores, state);
      }
    }
  }

  static void Merge(const AttentionCall& call, const AttentionTile& tile, int64_t split,
                    float* state_floats, float* total_floats) {
    const State state(call, state_floats), total(call, total_floats);
    for (int r = 0; r < tile.tokens * call.group; ++r) {
      const Visible v = VisibleOf(call, tile, tile.position + r / call.group);
      if (v.first >= (split + 1) * kSplitTokens || v.end <= split * kSplitTokens) continue;
      const float* from = state.sums + int64_t{r} * call.head_dim;
      float* to = total.sums + int64_t{r} * call.head_dim;
      if (v.first >= split * kSplitTokens || split == 0) {
        total.largest[r] = state.largest[r];
        total.weight[r] = state.weight[r];
        for (int d = 0; d < call.head_dim; d += kLanes) V::Load(from + d).Store(to + d);
        continue;
      }
      const float next = state.largest[r] > total.largest[r] ? state.largest[r] : total.largest[r];
      const V old_fade = Exp(V::Set1(total.largest[r]) - V::Set1(next));
      const V new_fade = Exp(V::Set1(state.largest[r]) - V::Set1(next));
      for (int d = 0; d < call.head_dim; d += kLanes)
        V::Fma(V::Load(from + d), new_fade, V::Load(to + d) * old_fade).Store(to + d);
      alignas(64) float weights[kLanes];
      V::Fma(V::Set1(state.weight[r]), new_fade, V::Set1(total.weight[r]) * old_fade)
          .Store(weights);
      total.weight[r] = weights[0];
      total.largest[r] = next;
    }
  }

  static void Finish(const AttentionCall& call, const AttentionTile& tile, float* total_floats) {
    const State total(call, total_floats);
    for (int r = 0; r < tile.tokens * call.group; ++r) {
      const int64_t head = int64_t{tile.kv_head} * call.group + r % call.group;
      const int64_t width = call.head_dim - call.out_from;
      float* out = call.out + (tile.token + r / call.group) * call.out_stride + head * width;
      const float* sums = total.sums + int64_t{r} * call.head_dim + call.out_from;
      V weight = V::Set1(total.weight[r]), fade = V::Set1(1.0f);
      if (call.sinks != nullptr) {
        const V largest = V::Set1(total.largest[r]), sink = V::Set1(call.sinks[head]);
        const V most = V::Max(sink, largest);
        fade = Exp(largest - most);
        weight = V::Fma(weight, fade, Exp(sink - most));
      }
      for (int64_t d = 0; d < width; d += kLanes)
        (V::Load(sums + d) * fade / weight).Store(out + d);
    }
  }

  // [kSplitTokens) positions of an IndexTile; see IndexKernels. `work`: a block of keys, and the
  // products of one token's heads with it.
  static void Index(const AttentionCall& call, const IndexTile& tile, float* work) {
    float* k = work;
    float* products = k + int64_t{kBlockTokens} * call.head_dim;
    const int64_t end = tile.first + kSplitTokens;
    for (int64_t block = tile.first; block < end; block += kBlockTokens) {
      const Range range = TileRange(call, tile.rows, block);
      if (range.empty()) return;
      LoadK(call, tile.rows, block, range, k);
      for (int token = 0; token < tile.rows.tokens; ++token) {
        const Range seen = RangeOf(call, tile.rows, token, block);
        if (seen.empty()) continue;
        Scores(call, tile.rows, token * call.group, (token + 1) * call.group, k, products);
        const float* weights = tile.weights + token * tile.weights_stride;
        float* out = tile.scores + token * tile.scores_stride + block;
        for (int at = 0; at < seen.end; at += kLanes) {
          V sum = V::Zero();
          for (int h = 0; h < call.group; ++h) {
            const V product = V::Load(products + h * kBlockTokens + at);
            sum = V::Fma(V::Max(product, V::Zero()), V::Set1(weights[h]), sum);
          }
          const int left = seen.end - at;
          (sum * V::Set1(call.scale)).StoreFirst(out + at, left < kLanes ? left : kLanes);
        }
      }
    }
  }

  static constexpr AttentionKernel kKernel = {&Begin, &Split, &Merge, &Finish};
  static constexpr AttentionTiling kTiling = {.rows = 192, .rows_small = 12};
};

}  // namespace sluice::cpu
