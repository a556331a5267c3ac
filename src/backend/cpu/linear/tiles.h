// BF16 weights in matrix tiles (AMX), and the kernels that multiply them.
//
// A group is 16 consecutive rows of W, stored as tiles of [16 rows][32 elements], k ascending; the
// last tile of a group and the last group are padded with zeros.
//
// This header is compiled for every instruction set: nothing here may generate code.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cpu/linear/packed.h"

namespace sluice::cpu {

inline constexpr int kTileRows = 16;      // of x, and of W in a group
inline constexpr int kTileElements = 32;  // of k
inline constexpr int kTileBytes = 1024;
inline constexpr int kTileSums = kTileRows * kTileRows;

// Few rows of x, as right operands of a product: per 32 elements `tiles` of [16 pairs][rows][2]
// bf16, pairs `stride` bytes apart.
struct TileColumns {
  const std::byte* pairs = nullptr;
  int64_t stride = 0;
  int tiles = 0;  // 1 or 2
  int64_t tile_bytes = 0;
};

// Many rows of x, as left operands: rows `stride` bytes apart, 32 of them.
struct TileLines {
  const std::byte* rows = nullptr;
  int64_t stride = 0;
};

struct TileKernels {
  // `count` F32 to bf16, to the nearest even; denormals become zeros.
  void (*round)(const float* x, int64_t count, std::byte* out) = nullptr;
  // Tiles of 16 rows of 32 bf16, rows `stride` and tiles `in_bytes` apart, to [16 pairs][16
  // rows][2], tiles `out_bytes` apart.
  void (*transpose)(const std::byte* rows, int64_t stride, int64_t tiles, int64_t in_bytes,
                    int64_t out_bytes, std::byte* out) = nullptr;

  // Sets the calling thread's tile registers: for columns of `columns` and `more_columns` rows of x
  // (0: one tile), or, with 0 columns, for lines. `release` gives them back.
  void (*configure)(int columns, int more_columns) = nullptr;
  void (*release)() = nullptr;

  // One or two groups, `group_bytes` apart, of `steps` tiles times few rows of x. sums[tile of
  // x][group] are [16 rows of W][16 rows of x] F32; with one row of x [16 rows of W].
  void (*stream)(const std::byte* group, int64_t group_bytes, int groups, int64_t steps,
                 const TileColumns& x, float* sums) = nullptr;
  // 32 rows of x times transposed tiles of one or two groups, `group_bytes` apart. Starts sums[tile
  // of x][group], [16 rows of x][16 rows of W] F32, or adds to them.
  void (*multiply)(const std::byte* tiles, int64_t group_bytes, int groups, int64_t steps,
                   const TileLines& x, bool start, float* sums) = nullptr;

  // One tile of sums to where results go; `transposed` as stream leaves those of several rows.
  void (*store)(const float* sums, bool transposed, const LinearSink& sink) = nullptr;
};

extern const TileKernels kAmxTileKernels;

}  // namespace sluice::cpu
