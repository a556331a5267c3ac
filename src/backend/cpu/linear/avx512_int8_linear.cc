// Linear for AVX-512 with VNNI and many rows: a group of W is unpacked once, then every 12 rows of
// x meet it. Unpacking in registers instead takes a sixth of the ports that multiply (one thread of
// Sapphire Rapids, Q4_1, 12 rows: 211 GMAC/s, unpacked 243).
#include "backend/cpu/linear/avx512_unpack.h"

namespace sluice::cpu {
namespace {

constexpr int kRows = 12;
// Below, unpacking costs what it saves.
constexpr int kRowsMin = 96;

template <int kFormat>
void UnpackedKernel(const std::byte* group, const std::byte* tile, int64_t steps,
                    const LinearSink& sink) {
  using V = V512;
  constexpr ops::BlockFormat kBlock = ops::kBlockFormats[kFormat];
  constexpr int kSubs = kActivationBlock / kBlock.sub;
  constexpr int kCodes = kBlock.sub * V::kLanes;
  V::F acc[kRows];
  Unroll<0, kRows>(SLUICE_EACH(r) { acc[r.value] = V::ZeroFloat(); });
  for (int64_t step = 0; step < steps; ++step) {
    Unroll<0, kSubs>(SLUICE_EACH(s) {
      const V::F scale = _mm512_load_ps(group + kCodes);
      const V::F minimum = kBlock.minimum ? _mm512_load_ps(group + kCodes + 64) : V::ZeroFloat();
      SubBlock<V, kFormat, kRows, s.value, true>(group, tile, scale, minimum, acc);
      group += kUnitBytes<kFormat>;
    });
    tile += kRows * (36 + 4 * kSubs);
  }
  StoreTile<V, kRows>(acc, sink);
}

constexpr ManyRows MakeManyRows() {
  ManyRows many;
  many.tiles.rows = kRows;
  many.tiles.rows_min = kRowsMin;
  many.tiles.unpacked = true;
  many.tiles.quantize = &QuantizeRows<V512>;
  Unroll<0, kBlockFormatCount>([&](auto f) {
    many.tiles.block[f.value] = &UnpackedKernel<f.value>;
    many.unpack[f.value] = &Unpack<f.value, false>;
  });
  return many;
}

}  // namespace

constinit const ManyRows kAvx512ManyRows = MakeManyRows();

}  // namespace sluice::cpu
