// Attention of at most four query rows, as a decode step of one KV head has them, by bf16 tiles.
// Included only by files compiled for AMX.
//
// The same sums as amx_bf16_attention.cc, to the bit: a tile product takes its pairs in the same
// order whichever factor is on the left. But rows lie in quarters of a vector, so that a vector of
// scores holds four positions of all rows, and P V has P on the left: V needs its positions in
// pairs, no transposition.
//   K, the left factor of K Q^T: read in place where it is bf16; else as LoadK leaves it
//   V, the right factor of P V:  [head_dim / 16][2 of 32 positions][16 pairs][16 dims][2], the dims
//     of 32 in the order in which unpacking leaves them, 0..3 8..11 16..19 24..27, then the others
#pragma once

#include "backend/cpu/attention/amx_arithmetic.h"

namespace sluice::cpu {
namespace {

constexpr int kFewRows = 4;

inline bool IsFew(const AttentionCall& call, const AttentionTile& tile) {
  // It reads sixteen positions as rows that lie one behind the other.
  return RowsOf(call, tile) <= kFewRows && call.block_tokens % kTileRows == 0 &&
         tile.path == nullptr;
}

namespace few {

constexpr int kGroups = kBlockTokens / kTileRows;
constexpr int kVectors = kBlockTokens * kFewRows / kLanes;  // of a block's scores

// Tiles 0, 1: scores [16 positions, 4 rows]. 2: q [16 pairs of dims][4 rows][2]. 3, 4: K or V.
// 5: weights [4 rows][32 positions]. 6, 7: sums [4 rows][16 dims].
struct alignas(64) TileConfig {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {16, 16, 16, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 4, 4, 4};
};
constexpr TileConfig kTileConfig;

// [16] largest scores of the rows, four times; [16] sums of weights, likewise; [4, head_dim] sums
// of weighted V, dims in V's order.
struct State {
  explicit State(float* state) : largest(state), weight(state + kLanes), sums(weight + kLanes) {}
  float* largest;
  float* weight;
  float* sums;
};

// Lane j of quarter l of rows[i] becomes lane i of quarter l of rows[j].
inline void TransposeQuarters(__m512i (&rows)[4]) {
  const __m512i a = _mm512_unpacklo_epi32(rows[0], rows[1]);
  const __m512i b = _mm512_unpacklo_epi32(rows[2], rows[3]);
  const __m512i c = _mm512_unpackhi_epi32(rows[0], rows[1]);
  const __m512i d = _mm512_unpackhi_epi32(rows[2], rows[3]);
  rows[0] = _mm512_unpacklo_epi64(a, b);
  rows[1] = _mm512_unpackhi_epi64(a, b);
  rows[2] = _mm512_unpacklo_epi64(c, d);
  rows[3] = _mm512_unpackhi_epi64(c, d);
}

// Where the positions of a block are in the cache, sixteen by sixteen, and which of them count.
struct Place {
  int64_t block = 0;
  BlockRange range;                                  // seen by some row
  int64_t kernel_block[kGroups] = {-1, -1, -1, -1};  // -1: no row sees any of them
  int64_t row[kGroups] = {};                         // of [kv_heads, block_tokens]
};

inline Place PlaceOf(const AttentionCall& call, const AttentionAhead& spot) {
  Place place;
  if (spot.tile == nullptr) return place;
  const AttentionTile& tile = *spot.tile;
  const int64_t block = spot.block;
  place.block = block;
  place.range = {RangeOf(call, tile, 0, block).first,
                 RangeOf(call, tile, tile.tokens - 1, block).end};
  const auto block_tokens = static_cast<uint32_t>(call.block_tokens);
  for (int g = 0; g < kGroups; ++g) {
    const int first = g * kTileRows;
    if (first >= place.range.end || first + kTileRows <= place.range.first) continue;
    const auto position = static_cast<uint32_t>(block + first);
    place.kernel_block[g] = tile.blocks[position / block_tokens];
    place.row[g] = tile.kv_head * call.block_tokens + position % block_tokens;
  }
  return place;
}

// The rows of a place in one cache tensor. Those of sixteen that no row sees are zeros.
template <class Kv>
struct PlaceRows {
  PlaceRows(const AttentionCall& call, const AttentionCache& cache, const Place& place)
      : head_dim(call.head_dim) {
    alignas(64) static constexpr uint8_t kZeros[kTileRows * 256 * sizeof(Kv)] = {};
    for (int g = 0; g < kGroups; ++g) {
      const bool seen = place.kernel_block[g] >= 0;
      data[g] = seen ? static_cast<const Kv*>(cache.data) + place.kernel_block[g] * cache.stride +
                           place.row[g] * head_dim
                     : reinterpret_cast<const Kv*>(kZeros);
      if constexpr (kIsCode<Kv>) {
        scales[g] = seen ? cache.scales + place.kernel_block[g] * cache.scale_stride + place.row[g]
                         : reinterpret_cast<const float*>(kZeros);
      }
    }
  }
  const Kv* Data(int i) const { return data[i / kTileRows] + i % kTileRows * head_dim; }
  KvRow<Kv> operator[](int i) const {
    if constexpr (kIsCode<Kv>) return {Data(i), scales[i / kTileRows][i % kTileRows] * Kv::kUnit};
    return {Data(i), 1.0f};
  }

  const int64_t head_dim;
  const Kv* data[kGroups];
  const float* scales[kIsCode<Kv> ? kGroups : 1];
};

// Thirty-two numbers from `d` on.
template <class Kv>
inline __m512i RowWords(KvRow<Kv> row, int d) {
  if constexpr (std::is_same_v<Kv, BFloat>) return _mm512_loadu_si512(row.data + d);
  return Words(row, d, row, d + 16);
}

// The line of `numbers`, asked for in the second level.
template <class Kv>
inline void Ask(const Kv* numbers) {
  _mm_prefetch(reinterpret_cast<const char*>(numbers), _MM_HINT_T1);
}

// V as tiles; rows outside `range` count as zeros unless `kFull`. Asks for the lines of `next_v`
// and `next_k` on the way, a few at a time as Ahead does.
template <class Kv, bool kFull>
inline void LoadV(const PlaceRows<Kv>& rows, BlockRange range, const PlaceRows<Kv>& next_v,
                  const PlaceRows<Kv>& next_k, uint16_t* tiles) {
  constexpr int kLine = 64 / sizeof(Kv);
  const int head_dim = static_cast<int>(rows.head_dim);
  for (int i = 0; i < kBlockTokens; i += 2) {
    const KvRow<Kv> even = rows[i], odd = rows[i + 1];
    const Kv* ask_v = next_v.Data(i);
    const Kv* ask_k = next_k.Data(i);
    uint16_t* to = tiles + (i / kTileColumns) * kTileWords + i % kTileColumns / 2 * kTileColumns;
    for (int d = 0; d < head_dim; d += kTileColumns) {
      __m512i a = RowWords(even, d), b = RowWords(odd, d);
      if constexpr (!kFull) {
        if (i < range.first || i >= range.end) a = _mm512_setzero_si512();
        if (i + 1 < range.first || i + 1 >= range.end) b = _mm512_setzero_si512();
      }
      if (d % kLine == 0) {
        Ask(ask_v + d);
        Ask(ask_k + d);
        Ask(ask_v + head_dim + d);
        Ask(ask_k + head_dim + d);
      }
      _mm512_store_si512(to, _mm512_unpacklo_epi16(a, b));
      _mm512_store_si512(to + 2 * kTileWords, _mm512_unpackhi_epi16(a, b));
      to += 4 * kTileWords;
    }
  }
}

// Where the K of a block is: in place, or copied to `tiles`.
template <class Kv>
inline void PlaceK(const PlaceRows<Kv>& rows, uint16_t* tiles, KBlock& block) {
  const int head_dim = static_cast<int>(rows.head_dim);
  for (int g = 0; g < kGroups; ++g) {
    if constexpr (std::is_same_v<Kv, BFloat>) {
      block[g] = {reinterpret_cast<const uint16_t*>(rows.data[g]), kTileColumns,
                  rows.head_dim * static_cast<int64_t>(sizeof(BFloat))};
      continue;
    }
    uint16_t* to = tiles + g * kTileRows * head_dim;
    block[g] = {to, kTileWords, 64};
    for (int i = 0; i < kTileRows; ++i) {
      const KvRow<Kv> row = rows[g * kTileRows + i];
      for (int d = 0; d < head_dim; d += kTileColumns)
        _mm512_store_si512(to + d / kTileColumns * kTileWords + i * kTileColumns, RowWords(row, d));
    }
  }
}

// scores [64, 4] = K Q^T
inline void Scores(const AttentionCall& call, const KBlock& k, const uint16_t* q, float* scores) {
  StoresBeforeTiles();
  for (int g = 0; g < kGroups; g += 2) {
    _tile_zero(0);
    _tile_zero(1);
    for (int c = 0; c < call.head_dim / kTileColumns; ++c) {
      _tile_loadd(2, q + c * kTileColumns * kFewRows, 16);
      _tile_loadd(3, k[g].data + c * k[g].step, k[g].stride);
      _tile_dpbf16ps(0, 3, 2);
      _tile_loadd(4, k[g + 1].data + c * k[g + 1].step, k[g + 1].stride);
      _tile_dpbf16ps(1, 4, 2);
    }
    _tile_stored(0, scores + g * kTileRows * kFewRows, 16);
    _tile_stored(1, scores + (g + 1) * kTileRows * kFewRows, 16);
  }
}

// sums [4, head_dim] += P V
inline void AddV(const AttentionCall& call, const float* weights, const uint16_t* v, float* sums,
                 bool fresh) {
  const int64_t stride = call.head_dim * static_cast<int64_t>(sizeof(float));
  StoresBeforeTiles();
  for (int d = 0; d < call.head_dim; d += kTileColumns) {
    const uint16_t* tiles = v + d / 16 * 2 * kTileWords;
    if (fresh) {
      _tile_zero(6);
      _tile_zero(7);
    } else {
      _tile_loadd(6, sums + d, stride);
      _tile_loadd(7, sums + d + 16, stride);
    }
    _tile_loadd(5, weights, 64);
    _tile_loadd(3, tiles, 64);
    _tile_dpbf16ps(6, 5, 3);
    _tile_loadd(4, tiles + 2 * kTileWords, 64);
    _tile_dpbf16ps(7, 5, 4);
    _tile_loadd(5, weights + kFewRows * kLanes, 64);
    _tile_loadd(3, tiles + kTileWords, 64);
    _tile_dpbf16ps(6, 5, 3);
    _tile_loadd(4, tiles + 3 * kTileWords, 64);
    _tile_dpbf16ps(7, 5, 4);
    _tile_stored(6, sums + d, stride);
    _tile_stored(7, sums + d + 16, stride);
  }
}

// Every quarter becomes `fold` over all quarters; pairs first, then the pairs.
template <class Fold>
inline V FoldQuarters(V x, const Fold& fold) {
  x = fold(x, V{_mm512_shuffle_f32x4(x.v, x.v, 0xb1)});
  return fold(x, V{_mm512_shuffle_f32x4(x.v, x.v, 0x4e)});
}

// sums[row] *= fade lane row
inline void FadeSums(const AttentionCall& call, V fade, float* sums) {
  for (int row = 0; row < kFewRows; ++row) {
    const V by = {_mm512_permutexvar_ps(_mm512_set1_epi32(row), fade.v)};
    float* at = sums + row * call.head_dim;
    for (int d = 0; d < call.head_dim; d += kLanes) (V::Load(at + d) * by).Store(at + d);
  }
}

// Quarter j of a[i] becomes quarter i of a[j].
inline void SwapQuarters(V (&a)[4]) {
  const __m512 p = _mm512_shuffle_f32x4(a[0].v, a[1].v, 0x88);
  const __m512 q = _mm512_shuffle_f32x4(a[2].v, a[3].v, 0x88);
  const __m512 r = _mm512_shuffle_f32x4(a[0].v, a[1].v, 0xdd);
  const __m512 s = _mm512_shuffle_f32x4(a[2].v, a[3].v, 0xdd);
  a[0].v = _mm512_shuffle_f32x4(p, q, 0x88);
  a[2].v = _mm512_shuffle_f32x4(p, q, 0xdd);
  a[1].v = _mm512_shuffle_f32x4(r, s, 0x88);
  a[3].v = _mm512_shuffle_f32x4(r, s, 0xdd);
}

// Stores the weights of 32 positions, vectors of [4 positions, 4 rows] whose lower 16 bits are 0,
// as [4 rows][32 positions] of bf16.
inline void StoreWeights(const V* s, float* weights) {
  V even[4] = {s[0], s[2], s[4], s[6]}, odd[4] = {s[1], s[3], s[5], s[7]};
  SwapQuarters(even);  // even[j] quarter l: position 8 l + j; of odd: 8 l + 4 + j
  SwapQuarters(odd);
  const auto pairs = [](V low, V high) {
    return _mm512_or_si512(_mm512_srli_epi32(_mm512_castps_si512(low.v), 16),
                           _mm512_castps_si512(high.v));
  };
  __m512i rows[4] = {pairs(even[0], even[1]), pairs(even[2], even[3]), pairs(odd[0], odd[1]),
                     pairs(odd[2], odd[3])};  // quarter l of rows[j]: pair 4 l + j
  TransposeQuarters(rows);
#pragma GCC unroll 4
  for (int row = 0; row < kFewRows; ++row) _mm512_store_si512(weights + row * kLanes, rows[row]);
}

// As the Softmax of sixteen rows. `ranges`: of the lanes' rows. `weights`: [2 of 32 positions][4
// rows][32 positions] of bf16.
template <bool kEdge>
inline void Softmax(const AttentionCall& call, const LaneRanges* ranges, bool fresh,
                    const float* scores, float* weights, const State& state) {
  const __m512i quarters = _mm512_set_epi32(3, 3, 3, 3, 2, 2, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0);
  const auto see = [&](int j) {
    return ranges->See(_mm512_add_epi32(quarters, _mm512_set1_epi32(4 * j)));
  };
  V s[kVectors];
#pragma GCC unroll 16
  for (int j = 0; j < kVectors; ++j) s[j] = V::Load(scores + j * kLanes);
  if (call.soft_cap > 0.0f) {
    for (V& x : s) x = CapScore(call, x);
  }
  const V before = fresh ? V::Set1(-kInfinity) : V::Load(state.largest);
  V top[4] = {before, before, before, before};
#pragma GCC unroll 16
  for (int j = 0; j < kVectors; ++j) {
    if constexpr (kEdge) s[j].v = _mm512_mask_mov_ps(V::Set1(-kInfinity).v, see(j), s[j].v);
    top[j & 3] = V::Max(s[j], top[j & 3]);
  }
  const V largest = FoldQuarters(V::Max(V::Max(top[0], top[1]), V::Max(top[2], top[3])),
                                 [](V a, V b) { return V::Max(a, b); });
  const __mmask16 grown = _mm512_cmp_ps_mask(largest.v, before.v, _CMP_GT_OQ);
  V fade = V::Set1(1.0f);
  if (!fresh && grown != 0) {
    const V power = Exp((before - largest) * V::Set1(kLn2));
    fade.v = _mm512_mask_mov_ps(fade.v, grown, power.v);
    FadeSums(call, fade, state.sums);
  }
  const V base = largest + V::Set1(0.5f);
  V sum = V::Zero();  // of every fourth position, in each quarter
#pragma GCC unroll 16
  for (int j = 0; j < kVectors; ++j) {
    __m512i power = RoundedPower(s[j] - base);
    if constexpr (kEdge) power = _mm512_maskz_mov_epi32(see(j), power);
    s[j].v = _mm512_castsi512_ps(power);
    sum = sum + s[j];
  }
  const V total = FoldQuarters(sum, [](V a, V b) { return a + b; });
  (fresh ? total : V::Fma(V::Load(state.weight), fade, total)).Store(state.weight);
  largest.Store(state.largest);
  StoreWeights(s, weights);
  StoreWeights(s + 8, weights + kFewRows * kLanes);
}

// AddV where V has a NaN or an infinity that not all of the rows see.
inline void AddSeenV(const AttentionCall& call, const AttentionTile& tile, int64_t block,
                     bool fresh, const Work& work, const State& state) {
  const int64_t words = int64_t{kBlockTokens} * call.head_dim, row_floats = call.head_dim;
  for (int token = 0; token < tile.tokens; ++token) {
    const BlockRange range = RangeOf(call, tile, token, block);
    for (int64_t at = 0; at < words; ++at) {
      const auto offset =
          static_cast<int>(at / kTileWords % 2 * kTileColumns + at % kTileWords / 32 * 2 + at % 2);
      const bool sees = offset >= range.first && offset < range.end;
      work.seen_v[at] = sees ? work.v[at] : static_cast<uint16_t>(0);
    }
    for (int64_t i = 0; i < kFewRows * row_floats; ++i) work.sums[i] = state.sums[i];
    AddV(call, work.weights, work.seen_v, work.sums, fresh);
    for (int64_t i = 0; i < call.group * row_floats; ++i) {
      const int64_t at = token * call.group * row_floats + i;
      work.spare[at] = work.sums[at];
    }
  }
  const int64_t floats = int64_t{RowsOf(call, tile)} * row_floats;
  for (int64_t i = 0; i < floats; ++i) state.sums[i] = work.spare[i];
}

// The walk over the blocks of a split. Scores are begun one block ahead of the softmax, so that
// tiles and vectors work side by side.
template <class Kv>
class Walk {
 public:
  Walk(const AttentionCall& call, const AttentionTile& tile, int64_t split,
       const AttentionAhead& ahead, float* state, float* work)
      : call_(call), tile_(tile), ahead_(ahead), work_(call, work), state_(state) {
    const Visible visible = VisibleOfTile(call, tile);
    begin_ = split * kSplitTokens;
    end_ = visible.end < begin_ + kSplitTokens ? visible.end : begin_ + kSplitTokens;
    while (begin_ + kBlockTokens <= visible.first) begin_ += kBlockTokens;
  }

  void Run() {
    if (begin_ >= end_) return;
    Spot spot = {&tile_, begin_}, next_spot = After(spot);
    Place now = PlaceOf(call_, spot), next = PlaceOf(call_, next_spot);
    BeginScores(now, work_.scores[0]);
    for (int turn = 0;; turn ^= 1) {
      const Spot after_spot = After(next_spot);
      const Place after = PlaceOf(call_, after_spot);
      PrepareV(now, next, after);
      const bool more = spot.block + kBlockTokens < end_;
      if (more) BeginScores(next, work_.scores[turn ^ 1]);
      Attend(now, spot.block == begin_, work_.scores[turn]);
      if (!more) return;
      spot = next_spot, next_spot = after_spot;
      now = next, next = after;
    }
  }

 private:
  using Spot = AttentionAhead;
  // Past the split goes on where the thread does.
  Spot After(Spot spot) const {
    const int64_t next = spot.block + kBlockTokens;
    if (spot.tile == &tile_ && spot.block < end_ && next >= end_) return ahead_;
    return {spot.tile, next};
  }
  void BeginScores(const Place& place, float* scores) {
    KBlock k;
    PlaceK(PlaceRows<Kv>(call_, call_.k, place), work_.k, k);
    Scores(call_, k, work_.q, scores);
  }
  void PrepareV(const Place& place, const Place& next, const Place& after) {
    const PlaceRows<Kv> v(call_, call_.v, place);
    const PlaceRows<Kv> next_v(call_, call_.v, next), next_k(call_, call_.k, after);
    if (place.range.full()) {
      LoadV<Kv, true>(v, place.range, next_v, next_k, work_.v);
    } else {
      LoadV<Kv, false>(v, place.range, next_v, next_k, work_.v);
    }
  }
  void Attend(const Place& place, bool fresh, const float* scores) {
    if (RangeOf(call_, tile_, 0, place.block).end == kBlockTokens &&
        RangeOf(call_, tile_, tile_.tokens - 1, place.block).first == 0) {
      Softmax<false>(call_, nullptr, fresh, scores, work_.weights, state_);
    } else {
      const LaneRanges ranges(call_, tile_, place.block, work_.token);
      Softmax<true>(call_, &ranges, fresh, scores, work_.weights, state_);
      // What a single token doesn't see is 0 already.
      if (tile_.tokens > 1 && !AllFinite(work_.v, int64_t{kBlockTokens} * call_.head_dim))
        return AddSeenV(call_, tile_, place.block, fresh, work_, state_);
    }
    AddV(call_, work_.weights, work_.v, state_.sums, fresh);
  }

  const AttentionCall& call_;
  const AttentionTile& tile_;
  const AttentionAhead& ahead_;
  const Work work_;
  const State state_;
  int64_t begin_ = 0, end_ = 0;
};

// work.q: [head_dim / 32][16 pairs of dims][4 rows][2]. work.token: of the rows, four times.
inline void Begin(const AttentionCall& call, const AttentionTile& tile, float* memory) {
  const Work work(call, memory);
  const V factor = QFactor(call);
  const int rows = RowsOf(call, tile);
  const float* from[kFewRows];
  for (int row = 0; row < kFewRows; ++row) {
    const int token = row < rows ? row / call.group : tile.tokens - 1;
    const int64_t head = int64_t{tile.kv_head} * call.group + row % call.group;
    from[row] = call.q + (tile.token + token) * call.q_stride + head * call.head_dim;
    for (int i = row; i < kLanes; i += kFewRows) work.token[i] = token;
  }
  for (int d = 0; d < call.head_dim; d += kTileColumns) {
    __m512i words[kFewRows];
    for (int row = 0; row < kFewRows; ++row) {
      words[row] = _mm512_setzero_si512();
      if (row >= rows) continue;
      const V low = V::Load(from[row] + d) * factor, high = V::Load(from[row] + d + 16) * factor;
      words[row] = Words(low.v, high.v);
    }
    TransposeQuarters(words);  // quarter l of words[j]: pair 4 l + j
    uint16_t* to = work.q + d * kFewRows;
#pragma GCC unroll 4
    for (int l = 0; l < 4; ++l) {
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j)
        _mm_store_si128(reinterpret_cast<__m128i*>(to + (4 * l + j) * 2 * kFewRows),
                        _mm512_extracti32x4_epi32(words[j], l));
    }
  }
}

template <class Kv>
inline void Split(const AttentionCall& call, const AttentionTile& tile, int64_t split,
                  const AttentionAhead& ahead, float* state, float* memory) {
  V::Set1(-kInfinity).Store(State(state).largest);
  V::Zero().Store(State(state).weight);
  _tile_loadconfig(&kTileConfig);
  Walk<Kv>(call, tile, split, ahead, state, memory).Run();
  _tile_release();
}

inline void Merge(const AttentionCall& call, const AttentionTile& tile, int64_t split,
                  float* state_floats, float* total_floats) {
  const State state(state_floats), total(total_floats);
  if (split == VisibleOfTile(call, tile).first / kSplitTokens) {
    const int64_t floats = 2 * kLanes + int64_t{kFewRows} * call.head_dim;
    for (int64_t i = 0; i < floats; i += kLanes) V::Load(state_floats + i).Store(total_floats + i);
    return;
  }
  const V old_largest = V::Load(total.largest), new_largest = V::Load(state.largest);
  const V none = V::Set1(-kInfinity);
  const __mmask16 had = _mm512_cmp_ps_mask(old_largest.v, none.v, _CMP_NEQ_OQ);
  const __mmask16 has = _mm512_cmp_ps_mask(new_largest.v, none.v, _CMP_NEQ_OQ);
  if (has == 0) return;
  const V largest = V::Max(old_largest, new_largest);
  const V old_fade = Exp((old_largest - largest) * V::Set1(kLn2));
  const V new_fade = Exp((new_largest - largest) * V::Set1(kLn2));
  // Rows that see nothing of one of the two are the other's, to the bit.
  const auto merge = [](V from, V to, V by_new, V by_old, __mmask16 in_old, __mmask16 in_new,
                        float* out) {
    const V both = V::Fma(from, by_new, to * by_old);
    _mm512_mask_store_ps(out, in_new, _mm512_mask_mov_ps(from.v, in_old, both.v));
  };
  merge(V::Load(state.weight), V::Load(total.weight), new_fade, old_fade, had, has, total.weight);
  for (int row = 0; row < kFewRows; ++row) {
    const __m512i lane = _mm512_set1_epi32(row);
    const V by_new = {_mm512_permutexvar_ps(lane, new_fade.v)};
    const V by_old = {_mm512_permutexvar_ps(lane, old_fade.v)};
    const auto in_old = static_cast<__mmask16>((had >> row & 1) != 0 ? 0xffff : 0);
    const auto in_new = static_cast<__mmask16>((has >> row & 1) != 0 ? 0xffff : 0);
    for (int d = 0; d < call.head_dim; d += kLanes) {
      const int64_t at = int64_t{row} * call.head_dim + d;
      merge(V::Load(state.sums + at), V::Load(total.sums + at), by_new, by_old, in_old, in_new,
            total.sums + at);
    }
  }
  largest.Store(total.largest);
}

inline void Finish(const AttentionCall& call, const AttentionTile& tile, float* total_floats) {
  const State total(total_floats);
  // A largest score of infinity leaves no weights.
  const V largest = V::Load(total.largest);
  const Sunk sunk(call, tile, /*first_row=*/0, kFewRows, largest,
                  V::Load(total.weight) + (largest - largest));
  const __m512i low = _mm512_set_epi32(23, 22, 21, 20, 7, 6, 5, 4, 19, 18, 17, 16, 3, 2, 1, 0);
  const __m512i high = _mm512_add_epi32(low, _mm512_set1_epi32(8));
  for (int row = 0; row < RowsOf(call, tile); ++row) {
    const __m512i lane = _mm512_set1_epi32(row);
    const V weight = {_mm512_permutexvar_ps(lane, sunk.weight.v)};
    const V fade = {_mm512_permutexvar_ps(lane, sunk.fade.v)};
    const int64_t head = int64_t{tile.kv_head} * call.group + row % call.group;
    float* out =
        call.out + (tile.token + row / call.group) * call.out_stride + head * call.head_dim;
    const float* sums = total.sums + int64_t{row} * call.head_dim;
    for (int d = 0; d < call.head_dim; d += kTileColumns) {
      const V a = V::Load(sums + d) * fade / weight, b = V::Load(sums + d + 16) * fade / weight;
      V{_mm512_permutex2var_ps(a.v, low, b.v)}.Store(out + d);
      V{_mm512_permutex2var_ps(a.v, high, b.v)}.Store(out + d + 16);
    }
  }
}

}  // namespace few
}  // namespace
}  // namespace sluice::cpu
