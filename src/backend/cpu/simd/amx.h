// The tile instructions of AMX by register number. Written as asm, since GCC 12's intrinsics take
// literal numbers only and don't say that they read memory (so that stores before them get lost).
// For files compiled for AMX.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sluice::cpu {
namespace {

// What `ldtilecfg` reads: per tile register its rows and bytes per row (at most 16 and 64).
struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t bytes_per_row[16] = {};
  uint8_t rows[16] = {};
};

inline __attribute__((always_inline)) void LoadTileConfig(const TileConfig& config) {
  asm volatile("ldtilecfg %0" ::"m"(config) : "memory");
}
inline __attribute__((always_inline)) void ReleaseTiles() { asm volatile("tilerelease"); }

template <int kTile>
inline __attribute__((always_inline)) void TileZero() {
  asm volatile("tilezero %%tmm%c0" ::"i"(kTile));
}
// Rows are `stride` bytes apart.
template <int kTile>
inline __attribute__((always_inline)) void TileLoad(const void* rows, int64_t stride) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(rows), "r"(stride), "i"(kTile) : "memory");
}
template <int kTile>
inline __attribute__((always_inline)) void TileStore(void* rows, int64_t stride) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(rows), "r"(stride), "i"(kTile) : "memory");
}
// Sum += A * B with pairs of bf16: A [rows][2 n], B [n][lanes][2].
template <int kSum, int kA, int kB>
inline __attribute__((always_inline)) void TileDotBf16() {
  asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kSum), "i"(kA), "i"(kB));
}
// Sum += A * B with signed bytes: A [rows][4 n], B [n][lanes][4].
template <int kSum, int kA, int kB>
inline __attribute__((always_inline)) void TileDotInt8() {
  asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kSum), "i"(kA), "i"(kB));
}

}  // namespace
}  // namespace sluice::cpu
