// The block formats of GGUF as integers with scales, defined once for references, packings and
// kernels. Bit layouts are those of ggml (ggml-common.h, ggml-quants.c).
//
// In every block format an element is
//   w = scale * (value(code) - offset) [+ minimum]
// where `sub` consecutive elements share scale and minimum, both exact in F32:
//   scale   = d * scales[i],   or d where the format has no sub-block scales
//   minimum = -m * mins[i],    or m where it has none
// Plain functions over values; any thread may call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/dtype.h"

namespace sluice::ops {

struct BlockFormat {
  DType dtype;
  int block;                // elements of a block of the file
  int sub;                  // elements that share a scale: 16 or 32
  int bits;                 // of a code: 2, 3, 4, 5, 6, 8
  int offset;               // subtracted from the value
  bool minimum;             // has a minimum
  bool sub_scales;          // has a scale (and a minimum, where there is one) per sub-block
  bool power_of_two_scale;  // d is an E8M0 exponent byte; otherwise F16
  bool table;               // value(code) looks up CodeValues; otherwise the code itself
};

inline constexpr BlockFormat kBlockFormats[] = {
    {DType::kQ8_0, 32, 32, 8, 128, false, false, false, false},
    {DType::kQ4_0, 32, 32, 4, 8, false, false, false, false},
    {DType::kQ4_1, 32, 32, 4, 0, true, false, false, false},
    {DType::kQ5_0, 32, 32, 5, 16, false, false, false, false},
    {DType::kQ5_1, 32, 32, 5, 0, true, false, false, false},
    {DType::kQ2_K, 256, 16, 2, 0, true, true, false, false},
    {DType::kQ3_K, 256, 16, 3, 4, false, true, false, false},
    {DType::kQ4_K, 256, 32, 4, 0, true, true, false, false},
    {DType::kQ5_K, 256, 32, 5, 0, true, true, false, false},
    {DType::kQ6_K, 256, 16, 6, 32, false, true, false, false},
    {DType::kIQ4_NL, 32, 32, 4, 128, false, false, false, true},
    {DType::kMXFP4, 32, 32, 4, 12, false, false, true, true},
};

// Value + offset of each 4-bit code, for the formats with a table.
inline constexpr uint8_t kIq4NlValues[16] = {1,   24,  45,  63,  79,  93,  106, 118,
                                             129, 141, 153, 166, 181, 197, 217, 241};
inline constexpr uint8_t kMxfp4Values[16] = {12, 13, 14, 15, 16, 18, 20, 24,
                                             12, 11, 10, 9,  8,  6,  4,  0};

// Null for plain types.
const BlockFormat* FindBlockFormat(DType dtype);
// REQUIRES: the format has a table.
std::span<const uint8_t, 16> CodeValues(DType dtype);

// One block of a file, taken apart.
struct BlockParts {
  uint8_t codes[256];  // in the order of the elements, before the table
  uint16_t d;          // F16 bits, or the exponent byte
  uint16_t m;          // F16 bits; 0 without a minimum
  int8_t scales[16];   // per sub-block; 1 without sub-block scales
  int8_t mins[16];     // the same; 0..63
};

// REQUIRES: `format` is of kBlockFormats; `block` has Info(dtype).bytes bytes. Every bit pattern is
// a legal block.
void TakeApart(const BlockFormat& format, const std::byte* block, BlockParts* parts);

// The inverse: writes Info(dtype).bytes bytes. REQUIRES: codes and scales fit the format's bits.
void PutTogether(const BlockFormat& format, const BlockParts& parts, std::byte* block);

// Scale and minimum (0 if there is none) of sub-block i.
float ScaleOf(const BlockFormat& format, const BlockParts& parts, int i);
float MinimumOf(const BlockFormat& format, const BlockParts& parts, int i);

// 2^(e - 128): the scale of MXFP4's doubled values.
float E8M0HalfToF32(uint8_t exponent);

}  // namespace sluice::ops
