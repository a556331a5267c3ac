// Brings the K and V of 64 positions of one KV head from the paged cache into bf16 tiles. Included
// only by files compiled for AMX. A further KV type is a further Words function.
//
// A tile is 16 rows of 32 bf16, 1 KiB in one piece.
//   K, the left factor of K Q^T:  [4 of 16 positions][head_dim / 32][parts][16 positions][32 dims]
//   V^T, the left factor of V^T P^T: [head_dim / 16][2 of 32 positions][16 dims][32 positions]
// Positions that no row of the tile sees are not read; they are 0.
#pragma once

#include <immintrin.h>

#include <cstring>

#include "backend/cpu/attention/kernels.h"
#include "backend/cpu/simd/avx512.h"

namespace sluice::cpu {
namespace {

constexpr int kTileRows = 16;
constexpr int kTileColumns = 32;  // bf16
constexpr int kTileWords = kTileRows * kTileColumns;

// Sixteen numbers at `low`, then sixteen at `high`, as bf16 in the order of memory.
inline __m512i Words(const BFloat* low, const BFloat* high) {
  const __m256i a = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(low));
  const __m256i b = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(high));
  return _mm512_inserti64x4(_mm512_castsi256_si512(a), b, 1);
}
inline __m512i Words(__m512 low, __m512 high) {
  return reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low));
}
inline __m512i Words(const Half* low, const Half* high) {
  return Words(avx512::F32x16::Load(low).v, avx512::F32x16::Load(high).v);
}

// A position's numbers in one cache. Of codes, `scale` is that of the row times kUnit.
template <class Kv>
struct KvRow {
  const Kv* data;
  float scale;
};
// Sixteen numbers of `low` from `i` on, then sixteen of `high` from `j` on.
template <class Kv>
inline __m512i Words(KvRow<Kv> low, int i, KvRow<Kv> high, int j) {
  if constexpr (kIsCode<Kv>) {
    using V = avx512::F32x16;
    return Words((V::Load(low.data + i) * V::Set1(low.scale)).v,
                 (V::Load(high.data + j) * V::Set1(high.scale)).v);
  } else {
    return Words(low.data + i, high.data + j);
  }
}

// words 0, 16, 1, 17, ...: pairs of a number of the lower half and one of the upper.
inline __m512i Interleave(__m512i words) {
  alignas(64) static constexpr uint16_t kOrder[32] = {0,  16, 1,  17, 2,  18, 3,  19, 4,  20, 5,
                                                      21, 6,  22, 7,  23, 8,  24, 9,  25, 10, 26,
                                                      11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  return _mm512_permutexvar_epi16(_mm512_load_si512(kOrder), words);
}

// rows[i] 32-bit lane j becomes rows[j] lane i; then stores them as a tile.
inline void StoreTransposed(avx512::F32x16 (&rows)[16], uint16_t* tile) {
  avx512::F32x16::Transpose(rows);
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) _mm512_store_ps(tile + i * kTileColumns, rows[i].v);
}

// The rows of a block of positions in one cache tensor.
template <class Kv>
struct BlockRows {
  // Rows outside `range` are a row of zeros.
  BlockRows(const AttentionCall& call, const AttentionTile& tile, const AttentionCache& cache,
            int64_t block, BlockRange range) {
    alignas(64) static constexpr uint8_t kZeros[256 * sizeof(Kv)] = {};
    for (int i = 0; i < kBlockTokens; ++i) data[i] = reinterpret_cast<const Kv*>(kZeros);
    if constexpr (kIsCode<Kv>) std::memset(scale, 0, sizeof scale);
    ForRuns(call, tile, block, range, [&](int i, int64_t kernel_block, int64_t row, int count) {
      const Kv* first =
          static_cast<const Kv*>(cache.data) + kernel_block * cache.stride + row * call.head_dim;
      for (int j = 0; j < count; ++j) data[i + j] = first + int64_t{j} * call.head_dim;
      if constexpr (kIsCode<Kv>) {
        const float* from = cache.scales + kernel_block * cache.scale_stride + row;
        for (int j = 0; j < count; ++j) scale[i + j] = from[j] * Kv::kUnit;
      }
    });
  }
  KvRow<Kv> operator[](int i) const {
    if constexpr (kIsCode<Kv>) return {data[i], scale[i]};
    return {data[i], 1.0f};
  }

  const Kv* data[kBlockTokens];
  float scale[kIsCode<Kv> ? kBlockTokens : 1];
};

// Asks for the lines of a block in order, a few at a time: all at once would hold up the loads of
// the block at hand, which need the same fill buffers.
template <class Kv>
class Ahead {
 public:
  Ahead(const AttentionCall& call, const BlockRows<Kv>& rows)
      : row_(rows.data), row_bytes_(call.head_dim * static_cast<int64_t>(sizeof(Kv))) {}
  void Line() {
    _mm_prefetch(reinterpret_cast<const char*>(*row_) + at_, _MM_HINT_T1);
    at_ += 64;
    if (at_ >= row_bytes_) at_ = 0, ++row_;
  }

 private:
  const Kv* const* row_;
  const int64_t row_bytes_;
  int64_t at_ = 0;
};

// Where the K of sixteen positions is: the tile of 32 dims number c begins at data + c * step, its
// rows `stride` bytes apart.
struct KTiles {
  const uint16_t* data = nullptr;
  int64_t step = 0, stride = 0;
};
using KBlock = KTiles[kBlockTokens / kTileRows];

// Tiles of K that is kept as bf16 can be read where they are, if rows see all of the block.
inline bool CanReadInPlace(const AttentionCall& call, BlockRange range) {
  return range.full() && call.block_tokens % kTileRows == 0;
}
inline void PlaceK(const AttentionCall& call, const BlockRows<BFloat>& rows, KBlock& block) {
  for (int i = 0; i < kBlockTokens / kTileRows; ++i) {
    block[i] = {reinterpret_cast<const uint16_t*>(rows.data[i * kTileRows]), kTileColumns,
                call.head_dim * static_cast<int64_t>(sizeof(BFloat))};
  }
}

template <class Kv>
inline void LoadK(const AttentionCall& call, const BlockRows<Kv>& rows, const BlockRows<Kv>& next,
                  uint16_t* tiles, KBlock& block) {
  for (int i = 0; i < kBlockTokens / kTileRows; ++i)
    block[i] = {tiles + int64_t{i} * kTileRows * call.head_dim, kTileWords, 64};
  Ahead<Kv> ahead(call, next);
  const int columns = call.head_dim / kTileColumns;
  for (int i = 0; i < kBlockTokens; ++i) {
    uint16_t* to = tiles + (i / kTileRows) * columns * kTileWords + i % kTileRows * kTileColumns;
    for (int c = 0; c < columns; ++c) {
      ahead.Line();
      _mm512_store_si512(to + c * kTileWords,
                         Words(rows[i], c * kTileColumns, rows[i], c * kTileColumns + 16));
    }
  }
}

// `next_k`: asked for on the way, too, unless it is null.
template <class Kv>
inline void LoadV(const AttentionCall& call, const BlockRows<Kv>& rows, const BlockRows<Kv>& next,
                  const BlockRows<Kv>* next_k, uint16_t* tiles) {
  Ahead<Kv> ahead(call, next), ahead_k(call, next_k != nullptr ? *next_k : next);
  for (int part = 0; part < kBlockTokens / kTileColumns; ++part) {
    const int from = part * kTileColumns;
    for (int d = 0; d < call.head_dim; d += kTileRows) {
      avx512::F32x16 square[16];
#pragma GCC unroll 16
      for (int i = 0; i < 16; ++i) {
        const __m512i pairs = Interleave(Words(rows[from + 2 * i], d, rows[from + 2 * i + 1], d));
        square[i].v = _mm512_castsi512_ps(pairs);
        ahead.Line();
        if (next_k != nullptr) ahead_k.Line();
      }
      StoreTransposed(square, tiles + (d / kTileRows * 2 + part) * kTileWords);
    }
  }
}

}  // namespace
}  // namespace sluice::cpu
