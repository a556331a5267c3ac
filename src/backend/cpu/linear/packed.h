// Packed weights of the CPU kernels, and the table of kernels of one instruction set.
//
// A group is `lanes` consecutive rows of W (16 for AVX-512, 8 for AVX2; the last group is padded
// with zeros), so that one lane of a vector is one output. A group starts at a multiple of 64
// bytes:
//
// Block formats: first the codes, per 32 elements `lanes * 4 * bits` bytes; then the scales, per
// block of the file. A vector of codes has, for each row, 4 consecutive elements k = 4i .. 4i+3
// (i = 0..7), a byte each. Vectors are stored as bit planes, high bits after low ones:
//   8 bits: vector i as it is
//   4 bits: byte v of the plane has vector 2v in its low half and 2v + 1 in its high half
//   2 bits: byte v has vectors 4v .. 4v+3, from the low bits up
//   1 bit:  bit i is of vector i
//   so 3 = 2 + 1, 5 = 4 + 1, 6 = 4 + 2. Formats with a table keep their 4-bit codes.
// The scales of a block: d [lanes] as the file has it, if there is one; m [lanes], if there is one;
// then per sub-block scales [lanes] in int8 or E4M3 and mins [lanes] in int8 (Q2_K: both in one
// byte, scale low).
//
// Plain formats: [k][lanes] elements as the file has them.
//
// This header is compiled for every instruction set: nothing here may generate code.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/formats/format.h"

namespace sluice::cpu {

inline constexpr int kActivationBlock = 32;
inline constexpr int kScaledElements = 128;  // that a scale of F8 weights covers
inline constexpr int kGroupAlignment = 64;
inline constexpr int kLineBytes = 64;

// Where a kernel's results go: rows x lanes of the output, scaled, bias and residual added.
struct LinearSink {
  float* out = nullptr;  // of the first row and lane; rows are `stride` apart
  int64_t stride = 0;
  const float* block_scales = nullptr;  // of these rows of W, for each 128 elements; or null
  const float* scales = nullptr;        // of rows of W, [lanes], or null
  const float* bias = nullptr;          // [lanes] or null
  const float* residual = nullptr;      // as `out`, or null
  int64_t residual_stride = 0;
  int rows = 0, lanes = 0;  // that exist; the kernel's own rows and lanes may be more
  // Lines of W that will be read after these groups; kernels of pairs ask for them on their way.
  const std::byte* ahead = nullptr;
  int64_t ahead_lines = 0;
};

// One group of W, packed or unpacked, times one tile of x. `steps`: blocks of 32 elements, or
// elements for plain formats.
using LinearKernel = void (*)(const std::byte* group, const std::byte* tile, int64_t steps,
                              const LinearSink& sink);

// Rows of x as a kernel for `tile_rows` rows reads them; rows past `rows` become zeros.
// Block formats, per 32 elements: codes [8][tile_rows][4] int8, dx [tile_rows], and per sub-block
// of the weight's format [tile_rows]: -offset * sum of codes as int32, or, for formats with a
// minimum, dx * sum of codes. For matrix tiles the codes are [tile_rows][32] int8, and only formats
// with a minimum have sums. Plain formats: [k][tile_rows] F32.
struct TileSource {
  const float* x = nullptr;  // rows are `stride` apart
  int64_t stride = 0, k = 0;
  int rows = 0, tile_rows = 0;
};
using QuantizeTile = void (*)(const TileSource& source, const ops::BlockFormat& format,
                              std::byte* tile);
using CopyTile = void (*)(const TileSource& source, std::byte* tile);

inline constexpr int kRowCounts = 6;  // entries of LinearKernels::by_rows
inline constexpr int kBlockFormatCount =
    static_cast<int>(sizeof ops::kBlockFormats / sizeof ops::kBlockFormats[0]);
inline constexpr DType kPlainFormats[] = {DType::kF32, DType::kF16, DType::kBF16, DType::kF8E4M3};
inline constexpr int kPlainFormatCount = 4;

// Kernels for tiles of `rows` rows.
struct RowKernels {
  int rows = 0;
  int rows_min = 0;       // of all of x, for which these kernels are worth it
  bool unpacked = false;  // block kernels read what UnpackGroup made of a group
  QuantizeTile quantize = nullptr;
  CopyTile copy = nullptr;
  LinearKernel block[kBlockFormatCount] = {};  // in the order of kBlockFormats
  LinearKernel plain[kPlainFormatCount] = {};  // in the order of kPlainFormats
  LinearKernel scaled_f8 = nullptr;            // packed as plain F8
  // Two groups at a time, of which the second follows the first: with twice as many sums in
  // registers for each value that is loaded, and enough of them to hide what an addition takes.
  // Null where there is none. The bits are those of `plain`.
  LinearKernel plain_pair[kPlainFormatCount] = {};
};

// A group unpacked: per sub-block of W, k ascending, first the codes as bytes, [sub / 4][lanes][4]
// (unsigned values for vectors, value - offset for matrix tiles), then scales [lanes] F32, then,
// for formats with a minimum, minima [lanes] F32.
using UnpackGroup = void (*)(const std::byte* group, int64_t steps, std::byte* unpacked);

// Kernels for many rows, for which a group is unpacked once.
struct ManyRows {
  RowKernels tiles = {};
  UnpackGroup unpack[kBlockFormatCount] = {};
  // Sets the calling thread's matrix tiles for sub-blocks of `sub` elements; release gives them
  // back. Null where there is nothing to set.
  void (*configure)(int sub) = nullptr;
  void (*release)() = nullptr;
};

struct LinearKernels {
  int lanes = 0;
  int row_counts = 0;                   // used entries of by_rows
  RowKernels by_rows[kRowCounts] = {};  // rows ascending
  const ManyRows* many = nullptr;       // where by_rows has `unpacked` kernels
};

extern const LinearKernels kAvx2LinearKernels;
extern const LinearKernels kAvx512LinearKernels;
extern const ManyRows kAvx512ManyRows;
extern const ManyRows kAmxManyRows;

// Sizes as constants, without a function that could be emitted.
template <int kFormat, int kLanes>
struct GroupLayout {
  static constexpr ops::BlockFormat kBlock = ops::kBlockFormats[kFormat];
  static constexpr bool kNibbleScales = kBlock.sub_scales && kBlock.bits == 2;
  static constexpr int kCodeBytes = kLanes * 4 * kBlock.bits;  // per 32 elements
  static constexpr int kScaleBytes = kBlock.scale == ops::BlockScale::kF16    ? 2 * kLanes
                                     : kBlock.scale == ops::BlockScale::kE8M0 ? kLanes
                                                                              : 0;
  static constexpr int kMinimumBytes = kBlock.minimum ? 2 * kLanes : 0;
  static constexpr int kSubBytes =
      !kBlock.sub_scales ? 0 : (kBlock.minimum && !kNibbleScales ? 2 * kLanes : kLanes);
};

}  // namespace sluice::cpu
