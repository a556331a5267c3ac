// What the bf16 kernels share whatever the layout of their rows: memory, the score scale and the
// weights' arithmetic. Included only by files compiled for AMX.
#pragma once

#include "backend/cpu/attention/amx_kv_tiles.h"
#include "backend/cpu/simd/math.h"

namespace sluice::cpu {
namespace {

using V = avx512::F32x16;
constexpr int kLanes = 16;
constexpr float kInfinity = __builtin_inff();
constexpr float kLog2E = 1.44269504088896341f, kLn2 = 0.693147180559945309f;

// GCC 12's tile intrinsics don't say that they read memory.
inline void StoresBeforeTiles() { __asm__ volatile("" ::: "memory"); }

// What `split` keeps for itself; all of it whole cache lines.
struct Work {
  Work(const AttentionCall& call, float* p) {
    const auto take = [&](int64_t count) {
      float* at = p == nullptr ? nullptr : p + floats;
      floats += count;
      return at;
    };
    k = reinterpret_cast<uint16_t*>(take(int64_t{kBlockTokens / 2} * call.head_dim));
    v = reinterpret_cast<uint16_t*>(take(int64_t{kBlockTokens / 2} * call.head_dim));
    seen_v = reinterpret_cast<uint16_t*>(take(int64_t{kBlockTokens / 2} * call.head_dim));
    sums = take(int64_t{kLanes} * call.head_dim);
    spare = take(int64_t{kLanes} * call.head_dim);
    scores[0] = take(kBlockTokens * kLanes);
    scores[1] = take(kBlockTokens * kLanes);
    weights = take(kBlockTokens / 2 * kLanes);
    token = reinterpret_cast<int32_t*>(take(call.rows_max));
    q = reinterpret_cast<uint16_t*>(take(int64_t{call.rows_max} * call.head_dim / 2));
  }
  // q of rows [16 * number, 16 * number + 16): [head_dim / 32][16 pairs of dims][16 rows][2]
  const uint16_t* Q(const AttentionCall& call, int number) const {
    return q + int64_t{number} * kLanes * call.head_dim;
  }
  uint16_t* k;
  uint16_t* v;
  uint16_t* seen_v;  // v where a row may not meet all of it
  float* sums;       // [head_dim, 16]
  float* spare;      // [head_dim, 16]
  float* scores[2];  // [64, 16]
  float* weights;    // [32, 16] pairs of bf16
  int32_t* token;    // [rows_max] of the tile; rows that only fill up have the last one
  uint16_t* q;
  int64_t floats = 0;  // of all of it
};

inline int RowsOf(const AttentionCall& call, const AttentionTile& tile) {
  return tile.tokens * call.group;
}
// What the sinks of heads make of rows in the end: their sums of V are multiplied by `fade` and
// divided by `weight`. Lane i is row first + i % each of the tile.
struct Sunk {
  Sunk(const AttentionCall& call, const AttentionTile& tile, int first, int each, V largest,
       V weights)
      : weight(weights), fade(V::Set1(1.0f)) {
    if (call.sinks == nullptr) return;
    alignas(64) float of_rows[kLanes];
    for (int i = 0; i < kLanes; ++i) {
      const int row = first + i % each;
      of_rows[i] = call.sinks[tile.kv_head * call.group + row % call.group] * kLog2E;
    }
    const V sink = V::Load(of_rows), most = V::Max(sink, largest);
    fade = Exp((largest - most) * V::Set1(kLn2));
    weight = V::Fma(weights, fade, Exp((sink - most) * V::Set1(kLn2)));
  }
  V weight, fade;
};

// Scaled so that a score is a power of two, unless it goes through the cap.
inline V QFactor(const AttentionCall& call) {
  return V::Set1(call.soft_cap > 0.0f ? call.scale : call.scale * kLog2E);
}
inline V CapScore(const AttentionCall& call, V score) {
  return V::Set1(call.soft_cap * kLog2E) * Tanh(score / V::Set1(call.soft_cap));
}

// 2^(x + 0.5) for x <= -0.5, as the bits of an F32 rounded to 8 bits: within 1.1e-4 before the
// rounding, but for a constant factor near 1 that the division by the sum takes out. Below -126 a
// number that is 0 to a tile; 0 for NaN.
inline __m512i RoundedPower(V x) {
  x = V::Max(V::Set1(-127.0f), x);
  // Adding 1.5 * 2^23 leaves round(x) in the low bits; adding 1.5 * 2^16 + 126 leaves in the low 16
  // the upper 16 of a float between 0.5 and 1.
  const V shift = V::Set1(12582912.0f);
  const V whole = x + shift;
  const V r = x - (whole - shift);
  V p = V::Fma(V::Set1(0.07778612524f), r, V::Set1(0.34250158072f));
  p = V::Fma(p, r, V::Set1(0.98034542799f));
  p = V::Fma(p, r, V::Set1(98430.0f + 1.4140625f));
  return _mm512_add_epi32(_mm512_slli_epi32(_mm512_castps_si512(whole.v), 23),
                          _mm512_slli_epi32(_mm512_castps_si512(p.v), 16));
}

// Where lanes see what of a block.
struct LaneRanges {
  LaneRanges(const AttentionCall& call, const AttentionTile& tile, int64_t block,
             const int32_t* token) {
    const __m512i position = _mm512_add_epi32(
        _mm512_load_si512(token), _mm512_set1_epi32(static_cast<int>(tile.position - block)));
    const __m512i one = _mm512_set1_epi32(1);
    end = call.causal ? _mm512_add_epi32(position, one)
                      : _mm512_set1_epi32(static_cast<int>(tile.context - block));
    first = _mm512_setzero_si512();
    if (call.window > 0)
      first = _mm512_sub_epi32(_mm512_add_epi32(position, one),
                               _mm512_set1_epi32(static_cast<int>(call.window)));
  }
  __mmask16 See(int offset) const { return See(_mm512_set1_epi32(offset)); }
  __mmask16 See(__m512i at) const {
    return _mm512_mask_cmplt_epi32_mask(_mm512_cmple_epi32_mask(first, at), at, end);
  }
  __m512i first, end;
};

inline bool AllFinite(const uint16_t* words, int64_t count) {
  const __m512i exponent = _mm512_set1_epi16(0x7f80);
  for (int64_t i = 0; i < count; i += 32) {
    const __m512i bits = _mm512_and_si512(_mm512_load_si512(words + i), exponent);
    if (_mm512_cmpeq_epi16_mask(bits, exponent) != 0) return false;
  }
  return true;
}

}  // namespace
}  // namespace sluice::cpu
