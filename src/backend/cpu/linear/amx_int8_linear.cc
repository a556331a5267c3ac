// Linear for AMX: tiles of 16 rows of x times 16 outputs, one sub-block of W a step. The products
// of a sub-block are exact integers, and scales are applied as the vector kernels do, so the bits
// are theirs. Few rows, and plain formats, take the vector kernels.
#include "backend/cpu/linear/avx512_unpack.h"
#include "backend/cpu/simd/amx.h"

namespace sluice::cpu {
namespace {

// Sub-blocks between their product and the use of its result. Tile registers: kStages results, as
// many of x, and two of W.
// Measured on Sapphire Rapids: while tile instructions are in flight, 512-bit arithmetic runs on
// one port instead of two, so a product costs what scaling its result costs: about 64 cycles for
// formats with a minimum, however the two are ordered.
constexpr int kStages = 3;

constexpr TileConfig MakeConfig(int sub) {
  constexpr int rows = 16;
  TileConfig config;
  for (int i = 0; i < kStages; ++i) {
    config.rows[i] = static_cast<uint8_t>(rows);
    config.bytes_per_row[i] = 64;
    config.rows[3 + i] = static_cast<uint8_t>(rows);
    config.bytes_per_row[3 + i] = static_cast<uint16_t>(sub);
  }
  for (int i = 6; i < 8; ++i) {
    config.rows[i] = static_cast<uint8_t>(sub / 4);
    config.bytes_per_row[i] = 64;
  }
  return config;
}
constexpr TileConfig kConfigs[2] = {MakeConfig(16), MakeConfig(32)};

void Configure(int sub) { LoadTileConfig(kConfigs[sub == 32]); }

// From here on, tiles beat the vector kernels (Sapphire Rapids, Q4_1, 1536 x 576, weights in
// memory, one thread; us): 8 rows 79 against 55, 16 rows 107 against 91, 32 rows 159 against 165.
constexpr int kTileRowsMin = 25;

void QuantizeForTiles(const TileSource& source, const ops::BlockFormat& format, std::byte* tile) {
  const int rows = source.tile_rows, subs = kActivationBlock / format.sub;
  const int64_t step_bytes = static_cast<int64_t>(rows) * (36 + 4 * subs);
  const int64_t steps = source.k / kActivationBlock;
  if (source.rows < rows) __builtin_memset(tile, 0, steps * step_bytes);
  for (int row = 0; row < source.rows; ++row) {
    const float* x = source.x + row * source.stride;
    std::byte* step = tile;
    for (int64_t i = 0; i < steps; ++i) {
      int32_t sums[2];
      auto* codes = reinterpret_cast<int8_t*>(step + 32 * row);
      const float dx = V512::QuantizeBlock(x, codes, sums);
      std::byte* rest = step + 32 * rows + 4 * row;
      __builtin_memcpy(rest, &dx, 4);
      if (subs == 1) sums[0] = static_cast<int32_t>(static_cast<uint32_t>(sums[0]) + sums[1]);
      for (int s = 0; s < subs; ++s) {
        const float sum = dx * static_cast<float>(sums[s]);
        rest += 4 * rows;
        __builtin_memcpy(rest, &sum, 4);
      }
      x += kActivationBlock;
      step += step_bytes;
    }
  }
}

// Sub-blocks of 16 or 32 elements, with a minimum or without.
template <int kSub, bool kMinimum, int kRows>
struct TileProduct {
  static constexpr int kSubs = kActivationBlock / kSub;
  static constexpr int kUnit = kSub * 16 + (kMinimum ? 128 : 64);
  static constexpr int kStep = kRows * (36 + 4 * kSubs);

  // Stage kStage's result = x * W for sub-block `unit`.
  template <int kStage>
  static SLUICE_INLINE void Multiply(const std::byte* w, const std::byte* tile, int64_t unit,
                                     std::byte* result) {
    const std::byte* x = tile + unit / kSubs * kStep + unit % kSubs * kSub;
    constexpr int kX = kStages + kStage, kW = 2 * kStages + kStage % 2;
    TileZero<kStage>();
    TileLoad<kX>(x, 32);
    TileLoad<kW>(w + unit * kUnit, 64);
    TileDotInt8<kStage, kX, kW>();
    TileStore<kStage>(result, 64);
  }

  static SLUICE_INLINE void Scale(const std::byte* w, const std::byte* tile, int64_t unit,
                                  const std::byte* result, __m512 (&acc)[kRows]) {
    const std::byte* factors = w + unit * kUnit + kSub * 16;
    const std::byte* step = tile + unit / kSubs * kStep + 32 * kRows;
    const auto* dx = reinterpret_cast<const float*>(step);
    const auto* sums = dx + kRows * (1 + unit % kSubs);
    const __m512 scale = _mm512_load_ps(factors);
    const __m512 minimum = kMinimum ? _mm512_load_ps(factors + 64) : _mm512_setzero_ps();
    Unroll<0, kRows>(SLUICE_EACH(r) {
      const __m512 dot = _mm512_cvtepi32_ps(_mm512_load_si512(result + 64 * r.value));
      const __m512 factor = _mm512_mul_ps(scale, _mm512_set1_ps(dx[r.value]));
      acc[r.value] = _mm512_fmadd_ps(factor, dot, acc[r.value]);
      if constexpr (kMinimum) {
        acc[r.value] = _mm512_fmadd_ps(minimum, _mm512_set1_ps(sums[r.value]), acc[r.value]);
      }
    });
  }

  static void Run(const std::byte* w, const std::byte* tile, int64_t steps,
                  const LinearSink& sink) {
    alignas(64) std::byte results[kStages][kRows * 64];
    __m512 acc[kRows];
    Unroll<0, kRows>(SLUICE_EACH(r) { acc[r.value] = _mm512_setzero_ps(); });
    const int64_t units = steps * kSubs;
    Multiply<0>(w, tile, 0, results[0]);
    if (units > 1) Multiply<1>(w, tile, 1, results[1]);
    for (int64_t unit = 0; unit < units; unit += kStages) {
      Unroll<0, kStages>(SLUICE_EACH(i) {
        constexpr int kAhead = (i.value + kStages - 1) % kStages;
        const int64_t at = unit + i.value, ahead = at + kStages - 1;
        if (ahead < units) Multiply<kAhead>(w, tile, ahead, results[kAhead]);
        if (at < units) Scale(w, tile, at, results[i.value], acc);
      });
    }
    StoreTile<V512, kRows>(acc, sink);
  }
};

template <int kRows>
constexpr RowKernels MakeTileKernels() {
  RowKernels kernels;
  kernels.rows = kRows;
  kernels.rows_min = kTileRowsMin;
  kernels.unpacked = true;
  kernels.quantize = &QuantizeForTiles;
  Unroll<0, kBlockFormatCount>([&](auto f) {
    constexpr ops::BlockFormat kBlock = ops::kBlockFormats[f.value];
    kernels.block[f.value] = &TileProduct<kBlock.sub, kBlock.minimum, kRows>::Run;
  });
  return kernels;
}

constexpr ManyRows MakeUnit() {
  ManyRows unit;
  unit.tiles = MakeTileKernels<16>();
  Unroll<0, kBlockFormatCount>([&](auto f) { unit.unpack[f.value] = &Unpack<f.value, true>; });
  unit.configure = &Configure;
  unit.release = &ReleaseTiles;
  return unit;
}

}  // namespace

constinit const ManyRows kAmxManyRows = MakeUnit();

}  // namespace sluice::cpu
