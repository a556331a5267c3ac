// Linear for BF16 weights on AMX: x is rounded to bf16 and tiles are multiplied. A tile product
// adds, per output, the sum of 16 products of even elements and the sum of 16 of odd ones (each a
// chain of fused multiply-adds) to what was there. That is so whichever operand W is, so one row
// has the same bits however many rows there are.
//
// Few rows: W is the left operand, as it is stored. Many rows: W is the right operand, transposed
// once for all of them, and x stays as it is.
//
// Block formats have no kernel here: expanded to bf16 tiles, prefill is 1.4 times as fast as with
// integers, decode half as fast (ARCHITECTURE.md).
#include "backend/cpu/linear/avx512_vector.h"
#include "backend/cpu/linear/tiles.h"
#include "backend/cpu/simd/amx.h"
#include "backend/cpu/simd/avx512.h"

namespace sluice::cpu {
namespace {

using avx512::F32x16;

// Tile registers: 0 to 3 sums (2 * tile of x + group), 4 and 5 left operands, 6 and 7 right ones.
void Configure(int columns, int more_columns) {
  TileConfig config;
  for (int i = 0; i < 8; ++i) {
    config.rows[i] = kTileRows;
    config.bytes_per_row[i] = 64;
  }
  if (columns > 0) {
    for (const int i : {0, 1, 6}) config.bytes_per_row[i] = static_cast<uint16_t>(4 * columns);
    // Not used without more columns, but 0 would be no valid size.
    const int more = more_columns > 0 ? more_columns : 1;
    for (const int i : {2, 3, 7}) config.bytes_per_row[i] = static_cast<uint16_t>(4 * more);
  }
  LoadTileConfig(config);
}

SLUICE_INLINE __m512i ToBFloat(__m512 high, __m512 low) {
  const __m512bh both = _mm512_cvtne2ps_pbh(high, low);
  return reinterpret_cast<const __m512i&>(both);
}

void Round(const float* x, int64_t count, std::byte* out) {
  int64_t i = 0;
  for (; i + 32 <= count; i += 32) {
    _mm512_storeu_si512(out + 2 * i, ToBFloat(_mm512_loadu_ps(x + i + 16), _mm512_loadu_ps(x + i)));
  }
  for (; i < count; i += 16) {
    const int64_t left = count - i < 16 ? count - i : 16;
    const auto mask = static_cast<__mmask16>((1u << left) - 1);
    const __m512i half = ToBFloat(_mm512_setzero_ps(), _mm512_maskz_loadu_ps(mask, x + i));
    _mm256_mask_storeu_epi16(out + 2 * i, mask, _mm512_castsi512_si256(half));
  }
}

// 16 x 16 dwords from rows `stride` bytes apart to rows of 64 bytes.
SLUICE_INLINE void Transpose(const std::byte* rows, int64_t stride, std::byte* out) {
  F32x16 lines[16];
  Unroll<0, 16>(SLUICE_EACH(i) {
    lines[i.value] = F32x16::Load(reinterpret_cast<const float*>(rows + i.value * stride));
  });
  F32x16::Transpose(lines);
  Unroll<0, 16>(
      SLUICE_EACH(i) { lines[i.value].Store(reinterpret_cast<float*>(out + 64 * i.value)); });
}

void TransposeTiles(const std::byte* rows, int64_t stride, int64_t tiles, int64_t in_bytes,
                    int64_t out_bytes, std::byte* out) {
  for (int64_t i = 0; i < tiles; ++i) {
    Transpose(rows + in_bytes * i, stride, out + out_bytes * i);
  }
}

SLUICE_INLINE void ZeroSums() {
  TileZero<0>();
  TileZero<1>();
  TileZero<2>();
  TileZero<3>();
}

SLUICE_INLINE void StoreSums(float* sums, int64_t stride, int tiles, int groups) {
  TileStore<0>(sums, stride);
  if (groups > 1) TileStore<1>(sums + kTileSums, stride);
  if (tiles > 1) TileStore<2>(sums + 2 * kTileSums, stride);
  if (tiles > 1 && groups > 1) TileStore<3>(sums + 3 * kTileSums, stride);
}

// One step of few rows: tiles of W at `w` and, for a second group, `w2`.
SLUICE_INLINE void StreamStep(const std::byte* w, const std::byte* w2, const std::byte* x,
                              const TileColumns& columns, int groups) {
  TileLoad<6>(x, columns.stride);
  TileLoad<4>(w, 64);
  TileDotBf16<0, 4, 6>();
  if (groups > 1) {
    TileLoad<5>(w2, 64);
    TileDotBf16<1, 5, 6>();
  }
  if (columns.tiles > 1) {
    TileLoad<7>(x + columns.tile_bytes, columns.stride);
    TileDotBf16<2, 4, 7>();
    if (groups > 1) TileDotBf16<3, 5, 7>();
  }
}

void Stream(const std::byte* group, int64_t group_bytes, int groups, int64_t steps,
            const TileColumns& x, float* sums) {
  const int64_t step_bytes = x.tiles * x.tile_bytes;
  ZeroSums();
  for (int64_t step = 0; step < steps; ++step) {
    const std::byte* w = group + step * kTileBytes;
    V512::Prefetch(w, kTileBytes);
    StreamStep(w, w + group_bytes, x.pairs + step * step_bytes, x, groups);
  }
  StoreSums(sums, x.stride, x.tiles, groups);
}

void Multiply(const std::byte* tiles, int64_t group_bytes, int groups, int64_t steps,
              const TileLines& x, bool start, float* sums) {
  if (start) {
    ZeroSums();
  } else {
    TileLoad<0>(sums, 64);
    TileLoad<1>(sums + kTileSums, 64);
    TileLoad<2>(sums + 2 * kTileSums, 64);
    TileLoad<3>(sums + 3 * kTileSums, 64);
  }
  // A second group that is not there is the first again, and its sums are not used.
  const std::byte* second = tiles + (groups > 1 ? group_bytes : 0);
  const std::byte* lower = x.rows + kTileRows * x.stride;
  for (int64_t i = 0; i < steps; ++i) {
    TileLoad<4>(x.rows + 64 * i, x.stride);
    TileLoad<6>(tiles + i * kTileBytes, 64);
    TileDotBf16<0, 4, 6>();
    TileLoad<7>(second + i * kTileBytes, 64);
    TileDotBf16<1, 4, 7>();
    TileLoad<5>(lower + 64 * i, x.stride);
    TileDotBf16<2, 5, 6>();
    TileDotBf16<3, 5, 7>();
  }
  StoreSums(sums, 64, 2, 2);
}

void Store(const float* sums, bool transposed, const LinearSink& sink) {
  alignas(64) float turned[kTileSums];
  if (transposed) {
    Transpose(reinterpret_cast<const std::byte*>(sums), 64, reinterpret_cast<std::byte*>(turned));
    sums = turned;
  }
  for (int r = 0; r < sink.rows; ++r) {
    __m512 value = _mm512_loadu_ps(sums + kTileRows * r);
    if (sink.bias != nullptr) value = V512::Add(value, V512::LoadPart(sink.bias, sink.lanes));
    if (sink.residual != nullptr) {
      const float* residual = sink.residual + r * sink.residual_stride;
      value = V512::Add(value, V512::LoadPart(residual, sink.lanes));
    }
    V512::StorePart(sink.out + r * sink.stride, value, sink.lanes);
  }
}

constexpr TileKernels MakeTileKernels() {
  TileKernels kernels;
  kernels.round = &Round;
  kernels.transpose = &TransposeTiles;
  kernels.configure = &Configure;
  kernels.release = &ReleaseTiles;
  kernels.stream = &Stream;
  kernels.multiply = &Multiply;
  kernels.store = &Store;
  return kernels;
}

}  // namespace

constinit const TileKernels kAmxTileKernels = MakeTileKernels();

}  // namespace sluice::cpu
