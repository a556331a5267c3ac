// Attention by bf16 tiles that add in F32. Everything is transposed, so that the lanes of a vector
// are sixteen query rows: K Q^T gives scores [position, row], the softmax needs no sum across
// lanes, and its weights, two positions to a 32-bit lane, are the right factor of V^T P^T. Tiles
// of at most four rows, as in decode, take another way to the same bits: see amx_few_rows.h.
//
// Rounded to bf16 (8 bits, half a unit is 2^-9 to 2^-8 of the number) are q scaled, K, V and the
// weights; the weights are divided by the sum of what was rounded. Sums are F32.
// A NaN in q gives NaN. A position whose K is NaN counts as unseen, but for its V's own NaN.
#include <type_traits>

#include "backend/cpu/attention/amx_arithmetic.h"
#include "backend/cpu/attention/amx_few_rows.h"
#include "backend/cpu/attention/amx_kv_tiles.h"
#include "backend/cpu/simd/math.h"

namespace sluice::cpu {
namespace {

// All eight tiles are whole, always.
struct alignas(64) TileConfig {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
constexpr TileConfig kTileConfig;

// Sixteen rows: [16] largest scores, as powers of two; [16] sums of weights; [head_dim, 16] sums of
// weighted V. Of a row whose largest is -infinity nothing else counts.
struct RowsState {
  RowsState(const AttentionCall& call, float* state, int number) {
    largest = state + int64_t{number} * (2 + call.head_dim) * kLanes;
    weight = largest + kLanes;
    sums = weight + kLanes;
  }
  float* largest;
  float* weight;
  float* sums;
};

int64_t WorkFloats(const AttentionCall& call) { return Work(call, nullptr).floats; }

int NumberOfSixteens(const AttentionCall& call, const AttentionTile& tile) {
  return (RowsOf(call, tile) + kLanes - 1) / kLanes;
}

// q of sixteen rows, scaled so that a score is a power of two (unless it goes through the cap).
void LoadQ(const AttentionCall& call, const AttentionTile& tile, int number, uint16_t* tiles) {
  const V factor = QFactor(call);
  const float* from[kLanes];
  const int left = RowsOf(call, tile) - number * kLanes;
  const int rows = left < kLanes ? left : kLanes;
  for (int i = 0; i < rows; ++i) {
    const int row = number * kLanes + i;
    const int64_t head = int64_t{tile.kv_head} * call.group + row % call.group;
    from[i] = call.q + (tile.token + row / call.group) * call.q_stride + head * call.head_dim;
  }
  for (int d = 0; d < call.head_dim; d += kTileColumns) {
    V square[kLanes];
    for (int i = 0; i < kLanes; ++i) square[i] = V::Zero();
    for (int i = 0; i < rows; ++i) {
      const V low = V::Load(from[i] + d) * factor, high = V::Load(from[i] + d + kLanes) * factor;
      square[i].v = _mm512_castsi512_ps(Words(low.v, high.v));
    }
    StoreTransposed(square, tiles + d / kTileColumns * kTileWords);
  }
}

void Begin(const AttentionCall& call, const AttentionTile& tile, float* memory) {
  if (IsFew(call, tile)) return few::Begin(call, tile, memory);
  const Work work(call, memory);
  const int sixteens = NumberOfSixteens(call, tile);
  for (int n = 0; n < sixteens; ++n)
    LoadQ(call, tile, n, work.q + int64_t{n} * kLanes * call.head_dim);
  int token = 0, head = 0;
  for (int row = 0; row < sixteens * kLanes; ++row) {
    work.token[row] = token;
    if (++head == call.group && token + 1 < tile.tokens) head = 0, ++token;
  }
}

// scores [64, 16] = K Q^T
void Scores(const AttentionCall& call, const KBlock& k, const uint16_t* q, float* scores) {
  const int columns = call.head_dim / kTileColumns;
  StoresBeforeTiles();
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (int c = 0; c < columns; ++c) {
    _tile_loadd(4, q + c * kTileWords, 64);
    _tile_loadd(5, k[0].data + c * k[0].step, k[0].stride);
    _tile_dpbf16ps(0, 5, 4);
    _tile_loadd(6, k[1].data + c * k[1].step, k[1].stride);
    _tile_dpbf16ps(1, 6, 4);
    _tile_loadd(5, k[2].data + c * k[2].step, k[2].stride);
    _tile_dpbf16ps(2, 5, 4);
    _tile_loadd(6, k[3].data + c * k[3].step, k[3].stride);
    _tile_dpbf16ps(3, 6, 4);
  }
  _tile_stored(0, scores, 64);
  _tile_stored(1, scores + 256, 64);
  _tile_stored(2, scores + 512, 64);
  _tile_stored(3, scores + 768, 64);
}

// kTiles * 16 dims of sums [head_dim, 16] += V^T P^T, with P^T in tiles 4 and 5. Tiles 0 to 3 are
// the sums; `fresh` ones start from 0.
template <int kTiles>
inline void AddDims(const uint16_t* v, float* sums, bool fresh) {
  if (fresh) {
    _tile_zero(0);
    _tile_zero(1);
    if constexpr (kTiles == 4) _tile_zero(2);
    if constexpr (kTiles == 4) _tile_zero(3);
  } else {
    _tile_loadd(0, sums, 64);
    _tile_loadd(1, sums + 256, 64);
    if constexpr (kTiles == 4) _tile_loadd(2, sums + 512, 64);
    if constexpr (kTiles == 4) _tile_loadd(3, sums + 768, 64);
  }
  _tile_loadd(6, v, 64);
  _tile_dpbf16ps(0, 6, 4);
  _tile_loadd(7, v + 2 * kTileWords, 64);
  _tile_dpbf16ps(1, 7, 4);
  if constexpr (kTiles == 4) {
    _tile_loadd(6, v + 4 * kTileWords, 64);
    _tile_dpbf16ps(2, 6, 4);
    _tile_loadd(7, v + 6 * kTileWords, 64);
    _tile_dpbf16ps(3, 7, 4);
  }
  _tile_loadd(6, v + kTileWords, 64);
  _tile_dpbf16ps(0, 6, 5);
  _tile_loadd(7, v + 3 * kTileWords, 64);
  _tile_dpbf16ps(1, 7, 5);
  if constexpr (kTiles == 4) {
    _tile_loadd(6, v + 5 * kTileWords, 64);
    _tile_dpbf16ps(2, 6, 5);
    _tile_loadd(7, v + 7 * kTileWords, 64);
    _tile_dpbf16ps(3, 7, 5);
  }
  _tile_stored(0, sums, 64);
  _tile_stored(1, sums + 256, 64);
  if constexpr (kTiles == 4) _tile_stored(2, sums + 512, 64);
  if constexpr (kTiles == 4) _tile_stored(3, sums + 768, 64);
}

void AddV(const AttentionCall& call, const float* weights, const uint16_t* v, float* sums,
          bool fresh) {
  StoresBeforeTiles();
  _tile_loadd(4, weights, 64);
  _tile_loadd(5, weights + 256, 64);
  int d = 0;
  for (; d + 64 <= call.head_dim; d += 64)
    AddDims<4>(v + d * kBlockTokens, sums + d * kLanes, fresh);
  if (d < call.head_dim) AddDims<2>(v + d * kBlockTokens, sums + d * kLanes, fresh);
}

// The largest of each row and what came before. NaN counts for nothing.
inline V Largest(const float* scores, V before) {
  V top[4] = {before, before, before, before};
#pragma GCC unroll 8
  for (int i = 0; i < kBlockTokens; i += 4) {
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) top[j] = V::Max(V::Load(scores + (i + j) * kLanes), top[j]);
  }
  return V::Max(V::Max(top[0], top[1]), V::Max(top[2], top[3]));
}

// Turns sixteen rows' scores into weights and brings their state up to them. `ranges`: null if all
// rows see the whole block.
template <bool kEdge>
inline void Softmax(const AttentionCall& call, const LaneRanges* ranges, bool fresh, float* scores,
                    float* weights, const RowsState& state) {
  if (call.soft_cap > 0.0f) {
    for (int i = 0; i < kBlockTokens * kLanes; i += kLanes)
      CapScore(call, V::Load(scores + i)).Store(scores + i);
  }
  if constexpr (kEdge) {
    for (int i = 0; i < kBlockTokens; ++i) {
      const V s = V::Load(scores + i * kLanes);
      V{_mm512_mask_mov_ps(V::Set1(-kInfinity).v, ranges->See(i), s.v)}.Store(scores + i * kLanes);
    }
  }
  const V before = fresh ? V::Set1(-kInfinity) : V::Load(state.largest);
  const V largest = Largest(scores, before);
  const __mmask16 grown = _mm512_cmp_ps_mask(largest.v, before.v, _CMP_GT_OQ);
  V fade = V::Set1(1.0f);
  if (!fresh && grown != 0) {
    const V power = Exp((before - largest) * V::Set1(kLn2));
    fade.v = _mm512_mask_mov_ps(fade.v, grown, power.v);
    for (int i = 0; i < call.head_dim * kLanes; i += kLanes)
      (V::Load(state.sums + i) * fade).Store(state.sums + i);
  }
  const V base = largest + V::Set1(0.5f);
  V sum[4] = {V::Zero(), V::Zero(), V::Zero(), V::Zero()};
#pragma GCC unroll 4
  for (int i = 0; i < kBlockTokens; i += 2) {
    __m512i even = RoundedPower(V::Load(scores + i * kLanes) - base);
    __m512i odd = RoundedPower(V::Load(scores + (i + 1) * kLanes) - base);
    if constexpr (kEdge) {
      even = _mm512_maskz_mov_epi32(ranges->See(i), even);
      odd = _mm512_maskz_mov_epi32(ranges->See(i + 1), odd);
    }
    sum[i & 2] = sum[i & 2] + V{_mm512_castsi512_ps(even)};
    sum[(i & 2) + 1] = sum[(i & 2) + 1] + V{_mm512_castsi512_ps(odd)};
    _mm512_store_si512(weights + i / 2 * kLanes, _mm512_or_si512(_mm512_srli_epi32(even, 16), odd));
  }
  const V total = (sum[0] + sum[1]) + (sum[2] + sum[3]);
  (fresh ? total : V::Fma(V::Load(state.weight), fade, total)).Store(state.weight);
  largest.Store(state.largest);
}

// AddV where V has a NaN or an infinity that not all of the rows see: 0 * NaN is no 0. For each
// token of the rows on its own, what it does not see is 0.
void AddSeenV(const AttentionCall& call, const AttentionTile& tile, int64_t block,
              const int32_t* token, bool fresh, const Work& work, const RowsState& state) {
  for (int i = 0; i < kLanes;) {
    __mmask16 lanes = 0;
    const int32_t same = token[i];
    for (; i < kLanes && token[i] == same; ++i) lanes |= static_cast<__mmask16>(1u << i);
    const BlockRange range = RangeOf(call, tile, same, block);
    for (int64_t at = 0; at < int64_t{kBlockTokens} * call.head_dim; ++at) {
      const int offset = static_cast<int>(at / kTileWords % 2 * kTileColumns + at % kTileColumns);
      const bool sees = offset >= range.first && offset < range.end;
      work.seen_v[at] = sees ? work.v[at] : static_cast<uint16_t>(0);
    }
    for (int d = 0; d < call.head_dim * kLanes; ++d) work.sums[d] = state.sums[d];
    AddV(call, work.weights, work.seen_v, work.sums, fresh);
    for (int d = 0; d < call.head_dim * kLanes; d += kLanes)
      _mm512_mask_store_ps(work.spare + d, lanes, V::Load(work.sums + d).v);
  }
  for (int d = 0; d < call.head_dim * kLanes; ++d) state.sums[d] = work.spare[d];
}

// The walk of a tile over the blocks of a split: sixteen rows after sixteen rows of a block, then
// the next block. Scores are begun one step ahead of the softmax, so that tiles and vectors work
// side by side, in prefill over rows and in decode over blocks.
template <class Kv>
class Walk {
 public:
  Walk(const AttentionCall& call, const AttentionTile& tile, int64_t split, float* state,
       float* work)
      : call_(call), tile_(tile), work_(call, work), state_(state) {
    begin_ = split * kSplitTokens;
    end_ = begin_ + kSplitTokens;
    sixteens_ = NumberOfSixteens(call, tile);
  }

  void Run() {
    Step now = FirstFrom(begin_);
    if (now.block >= end_) return;
    PrepareK(now.block);
    BeginScores(now);
    int64_t v_block = -1;
    while (now.block < end_) {
      if (v_block != now.block) PrepareV(v_block = now.block);
      Step next = After(now);
      next.turn = now.turn ^ 1;
      if (next.block < end_) {
        if (next.block != now.block) PrepareK(next.block);
        BeginScores(next);
      }
      Attend(now);
      now = next;
    }
  }

 private:
  struct Step {
    int64_t block = 0;
    int number = 0;  // of the sixteen rows
    int turn = 0;    // which of the two memories of scores
  };

  const int32_t* Tokens(int number) const { return work_.token + number * kLanes; }
  BlockRange Seen(Step step) const {  // by any of the rows
    return {RangeOf(call_, tile_, Tokens(step.number)[0], step.block).first,
            RangeOf(call_, tile_, Tokens(step.number)[kLanes - 1], step.block).end};
  }
  // Sights only move forward with the position.
  Step FirstFrom(int64_t block) const {
    for (; block < end_; block += kBlockTokens) {
      for (int n = 0; n < sixteens_; ++n) {
        if (!Seen({block, n}).empty()) return {block, n};
      }
    }
    return {end_, 0};
  }
  Step After(Step step) const {
    ++step.number;
    if (step.number < sixteens_ && !Seen(step).empty()) return step;
    return FirstFrom(step.block + kBlockTokens);
  }

  // What some row of the tile sees.
  BlockRange SeenOfBlock(int64_t block) const {
    return {RangeOf(call_, tile_, 0, block).first,
            RangeOf(call_, tile_, tile_.tokens - 1, block).end};
  }
  BlockRows<Kv> RowsOfBlock(const AttentionCache& cache, int64_t block) const {
    return BlockRows<Kv>(call_, tile_, cache, block, SeenOfBlock(block));
  }
  void PrepareK(int64_t block) {
    if constexpr (std::is_same_v<Kv, BFloat>) {
      // Many rows read the same K again and again; then a copy is faster.
      if (sixteens_ == 1 && CanReadInPlace(call_, SeenOfBlock(block)))
        return PlaceK(call_, RowsOfBlock(call_.k, block), k_);
    }
    LoadK(call_, RowsOfBlock(call_.k, block), RowsOfBlock(call_.k, block + kBlockTokens), work_.k,
          k_);
  }
  void PrepareV(int64_t block) {
    const BlockRows<Kv> rows = RowsOfBlock(call_.v, block);
    const BlockRows<Kv> next = RowsOfBlock(call_.v, block + kBlockTokens);
    if constexpr (std::is_same_v<Kv, BFloat>) {
      // K in place is asked for two blocks ahead: the scores of the next are begun before this
      // one's softmax.
      const BlockRows<Kv> next_k = RowsOfBlock(call_.k, block + 2 * kBlockTokens);
      LoadV(call_, rows, next, sixteens_ == 1 ? &next_k : nullptr, work_.v);
    } else {
      LoadV<Kv>(call_, rows, next, nullptr, work_.v);
    }
    v_known_ = false;
  }

  void BeginScores(Step step) const {
    Scores(call_, k_, work_.Q(call_, step.number), work_.scores[step.turn]);
  }

  void Attend(Step step) {
    const RowsState state(call_, state_, step.number);
    const int32_t* token = Tokens(step.number);
    float* scores = work_.scores[step.turn];
    const bool fresh =
        step.block == begin_ || Seen({step.block - kBlockTokens, step.number}).empty();
    if (RangeOf(call_, tile_, token[0], step.block).end == kBlockTokens &&
        RangeOf(call_, tile_, token[kLanes - 1], step.block).first == 0) {
      Softmax<false>(call_, nullptr, fresh, scores, work_.weights, state);
      AddV(call_, work_.weights, work_.v, state.sums, fresh);
      return;
    }
    const LaneRanges ranges(call_, tile_, step.block, token);
    Softmax<true>(call_, &ranges, fresh, scores, work_.weights, state);
    if (!v_known_) v_finite_ = AllFinite(work_.v, int64_t{kBlockTokens} * call_.head_dim);
    v_known_ = true;
    if (v_finite_) {
      AddV(call_, work_.weights, work_.v, state.sums, fresh);
    } else {
      AddSeenV(call_, tile_, step.block, token, fresh, work_, state);
    }
  }

  const AttentionCall& call_;
  const AttentionTile& tile_;
  const Work work_;
  float* state_;
  int64_t begin_ = 0, end_ = 0;
  int sixteens_ = 0;
  KBlock k_;
  bool v_known_ = false, v_finite_ = false;  // of the V at hand
};

template <class Kv>
void Split(const AttentionCall& call, const AttentionTile& tile, int64_t split,
           const AttentionAhead& ahead, float* state_floats, float* memory) {
  if (IsFew(call, tile)) return few::Split<Kv>(call, tile, split, ahead, state_floats, memory);
  for (int n = NumberOfSixteens(call, tile) - 1; n >= 0; --n) {
    const RowsState state(call, state_floats, n);
    V::Set1(-kInfinity).Store(state.largest);
    V::Zero().Store(state.weight);
  }
  _tile_loadconfig(&kTileConfig);
  Walk<Kv>(call, tile, split, state_floats, memory).Run();
  _tile_release();
}

void Merge(const AttentionCall& call, const AttentionTile& tile, int64_t split, float* state_floats,
           float* total_floats) {
  if (IsFew(call, tile)) return few::Merge(call, tile, split, state_floats, total_floats);
  const int sixteens = NumberOfSixteens(call, tile);
  if (split == VisibleOfTile(call, tile).first / kSplitTokens) {
    const int64_t floats = int64_t{sixteens} * (2 + call.head_dim) * kLanes;
    for (int64_t i = 0; i < floats; i += kLanes) V::Load(state_floats + i).Store(total_floats + i);
    return;
  }
  for (int n = 0; n < sixteens; ++n) {
    const RowsState state(call, state_floats, n), total(call, total_floats, n);
    const V old_largest = V::Load(total.largest), new_largest = V::Load(state.largest);
    const V none = V::Set1(-kInfinity);
    const __mmask16 had = _mm512_cmp_ps_mask(old_largest.v, none.v, _CMP_NEQ_OQ);
    const __mmask16 has = _mm512_cmp_ps_mask(new_largest.v, none.v, _CMP_NEQ_OQ);
    if (has == 0) continue;
    const V largest = V::Max(old_largest, new_largest);
    const V old_fade = Exp((old_largest - largest) * V::Set1(kLn2));
    const V new_fade = Exp((new_largest - largest) * V::Set1(kLn2));
    // Rows that see nothing of one of the two are the other's, to the bit.
    for (int i = -1; i < call.head_dim; ++i) {
      const V from = V::Load(state.sums + i * kLanes), to = V::Load(total.sums + i * kLanes);
      const V both = V::Fma(from, new_fade, to * old_fade);
      const __m512 merged = _mm512_mask_mov_ps(from.v, had, both.v);
      _mm512_mask_store_ps(total.sums + i * kLanes, has, merged);
    }
    largest.Store(total.largest);
  }
}

void Finish(const AttentionCall& call, const AttentionTile& tile, float* total_floats) {
  if (IsFew(call, tile)) return few::Finish(call, tile, total_floats);
  const int rows = RowsOf(call, tile);
  for (int n = 0; n * kLanes < rows; ++n) {
    const RowsState total(call, total_floats, n);
    // A largest score of infinity leaves no weights.
    const V largest = V::Load(total.largest);
    const Sunk sunk(call, tile, n * kLanes, kLanes, largest,
                    V::Load(total.weight) + (largest - largest));
    const int left = rows - n * kLanes;
    for (int d = 0; d < call.head_dim; d += kLanes) {
      V square[kLanes];
#pragma GCC unroll 16
      for (int i = 0; i < kLanes; ++i)
        square[i] = V::Load(total.sums + (d + i) * kLanes) * sunk.fade / sunk.weight;
      V::Transpose(square);
      for (int i = 0; i < kLanes && i < left; ++i) {
        const int row = n * kLanes + i;
        const int64_t head = int64_t{tile.kv_head} * call.group + row % call.group;
        square[i].Store(call.out + (tile.token + row / call.group) * call.out_stride +
                        head * call.head_dim + d);
      }
    }
  }
}

template <class Kv>
constexpr AttentionKernel kKernel = {&Begin, &Split<Kv>, &Merge, &Finish};

}  // namespace

const AttentionKernels kAmxAttentionKernels = {{},
                                               kKernel<Half>,
                                               kKernel<BFloat>,
                                               kKernel<Float8>,
                                               kKernel<Int8>,
                                               {.rows = 384, .rows_small = 16, .rows_step = 16},
                                               &WorkFloats};

}  // namespace sluice::cpu
