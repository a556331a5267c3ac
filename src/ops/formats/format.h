// The block formats of GGUF as integers with scales, defined once for references, packings and
// kernels. Bit layouts are those of ggml (ggml-common.h, ggml-quants.c).
//
// In every block format an element is
//   w = scale * (value(code) - offset) [+ minimum]
// where `sub` consecutive elements share scale and minimum, both exact in F32:
//   scale   = d * scales[i],   or d where the format has no sub-block scales
//   minimum = -m * mins[i],    or m where it has none
// I8 is no format of GGUF: it is integers alone, whose scale is that of their row or matrix
// (ops/linear.h), taken 32 at a time.
// Plain functions over values; any thread may call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/dtype.h"

namespace sluice::ops {

// What a block's d is. kE4M3: it has none, and each sub-block's scale is half of an E4M3 number
// without its sign, of which NaN stands for 0. kNone: scales are 1.
enum class BlockScale : uint8_t { kF16, kE8M0, kE4M3, kNone };

struct BlockFormat {
  DType dtype;
  int block;         // elements of a block of the file
  int sub;           // elements that share a scale: 16 or 32
  int bits;          // of a code: 2, 3, 4, 5, 6, 8
  int offset;        // subtracted from the value
  bool minimum;      // has a minimum
  bool sub_scales;   // has a scale (and a minimum, where there is one) per sub-block
  BlockScale scale;  // what d is
  bool table;        // value(code) looks up CodeValues; otherwise the code itself
  // Codes are what vectors of a codebook have: the file's blocks are smaller than codes of `bits`.
  bool codebook = false;
  int scale_shift = 0;  // scales are multiplied by 2^-scale_shift
};

inline constexpr BlockFormat kBlockFormats[] = {
    {DType::kQ8_0, 32, 32, 8, 128, false, false, BlockScale::kF16, false},
    {DType::kQ4_0, 32, 32, 4, 8, false, false, BlockScale::kF16, false},
    {DType::kQ4_1, 32, 32, 4, 0, true, false, BlockScale::kF16, false},
    {DType::kQ5_0, 32, 32, 5, 16, false, false, BlockScale::kF16, false},
    {DType::kQ5_1, 32, 32, 5, 0, true, false, BlockScale::kF16, false},
    {DType::kQ2_K, 256, 16, 2, 0, true, true, BlockScale::kF16, false},
    {DType::kQ3_K, 256, 16, 3, 4, false, true, BlockScale::kF16, false},
    {DType::kQ4_K, 256, 32, 4, 0, true, true, BlockScale::kF16, false},
    {DType::kQ5_K, 256, 32, 5, 0, true, true, BlockScale::kF16, false},
    {DType::kQ6_K, 256, 16, 6, 32, false, true, BlockScale::kF16, false},
    {DType::kIQ4_NL, 32, 32, 4, 128, false, false, BlockScale::kF16, true},
    {DType::kMXFP4, 32, 32, 4, 12, false, false, BlockScale::kE8M0, true},
    {DType::kIQ4_XS, 256, 32, 4, 128, false, true, BlockScale::kF16, true},
    {DType::kTQ1_0, 256, 32, 2, 1, false, false, BlockScale::kF16, false},
    {DType::kTQ2_0, 256, 32, 2, 1, false, false, BlockScale::kF16, false},
    {DType::kNVFP4, 64, 16, 4, 12, false, true, BlockScale::kE4M3, true},
    {DType::kI8, 32, 32, 8, 128, false, false, BlockScale::kNone, false},
};

// Formats whose codes are vectors of a codebook (ops/formats/codebook.h).
inline constexpr BlockFormat kCodebookFormats[] = {
    {DType::kIQ3_XXS, 256, 32, 8, 128, false, true, BlockScale::kF16, false, true, 2},
    {DType::kIQ3_S, 256, 32, 8, 128, false, true, BlockScale::kF16, false, true, 0},
    {DType::kIQ2_XXS, 256, 32, 8, 128, false, true, BlockScale::kF16, false, true, 3},
    {DType::kIQ2_XS, 256, 16, 8, 128, false, true, BlockScale::kF16, false, true, 3},
    {DType::kIQ2_S, 256, 16, 8, 128, false, true, BlockScale::kF16, false, true, 3},
    {DType::kIQ1_S, 256, 32, 8, 128, false, true, BlockScale::kF16, false, true, 3},
    {DType::kIQ1_M, 256, 16, 8, 128, false, true, BlockScale::kF16, false, true, 3},
};

// Value + offset of each 4-bit code, for the formats with a table.
inline constexpr uint8_t kIq4NlValues[16] = {1,   24,  45,  63,  79,  93,  106, 118,
                                             129, 141, 153, 166, 181, 197, 217, 241};
inline constexpr uint8_t kMxfp4Values[16] = {12, 13, 14, 15, 16, 18, 20, 24,
                                             12, 11, 10, 9,  8,  6,  4,  0};

// Of either table; null for plain types but I8.
const BlockFormat* FindBlockFormat(DType dtype);
// Bytes of one block of a file.
inline size_t BlockBytes(const BlockFormat& format) {
  return RowBytes(format.dtype, static_cast<size_t>(format.block));
}
// Whether `k` elements are whole blocks, or whole steps of a plain format.
inline bool WholeBlocks(DType dtype, int64_t k) {
  const BlockFormat* format = FindBlockFormat(dtype);
  return k % (format != nullptr ? format->block : Info(dtype).block) == 0;
}
// REQUIRES: the format has a table.
std::span<const uint8_t, 16> CodeValues(DType dtype);

// One block of a file, taken apart.
struct BlockParts {
  uint8_t codes[256];  // in the order of the elements, before the table
  uint16_t d;          // F16 bits, or the exponent byte; 0 without one
  uint16_t m;          // F16 bits; 0 without a minimum
  int8_t scales[16];   // per sub-block, integers or E4M3; 1 without sub-block scales
  int8_t mins[16];     // the same; 0..63
};

// REQUIRES: `format` is of one of the tables; `block` has BlockBytes(format) bytes. Every bit
// pattern is a legal block.
void TakeApart(const BlockFormat& format, const std::byte* block, BlockParts* parts);

// The inverse: writes BlockBytes(format) bytes. REQUIRES: codes and scales fit the format's bits;
// the format is neither TQ1_0 nor one with a codebook.
void PutTogether(const BlockFormat& format, const BlockParts& parts, std::byte* block);

// Gives a block whose bytes are arbitrary the scale d and, where it has one, the minimum m, or the
// nearest that it can have; the scales of sub-blocks stay, but for E4M3, of which only the mantissa
// does. For tests.
void SetScale(const BlockFormat& format, float d, float m, std::byte* block);

// Scale and minimum (0 if there is none) of sub-block i.
float ScaleOf(const BlockFormat& format, const BlockParts& parts, int i);
float MinimumOf(const BlockFormat& format, const BlockParts& parts, int i);

// 2^(e - 128): the scale of MXFP4's doubled values.
float E8M0HalfToF32(uint8_t exponent);

}  // namespace sluice::ops
