// What a linear kernel is given; shared by host and device code.
#pragma once

#include <cstdint>

#include "base/dtype.h"

namespace sluice::cuda {

// The sum over k of one output is split into kLinearSlices runs of units, the same for every m. A
// unit is kLinearUnit elements, or a block of the weight's format where that is longer.
inline constexpr int kLinearSlices = 8;
inline constexpr int kLinearUnit = 64;
inline constexpr int kLinearThreads = 256;

// How a kernel multiplies: factors of x as they are, with block formats widened to them, or x in
// F32 as the sum of three (kExact).
enum class LinearArithmetic : uint8_t { kBf16, kF16, kExact };

constexpr bool IsSuperBlock(DType weight) {
  return weight == DType::kQ2_K || weight == DType::kQ3_K || weight == DType::kQ4_K ||
         weight == DType::kQ5_K || weight == DType::kQ6_K;
}
constexpr bool IsPlainWeight(DType weight) {
  return weight == DType::kF32 || weight == DType::kF16 || weight == DType::kBF16 ||
         weight == DType::kF8E4M3;
}
constexpr int LinearUnitOf(DType weight) { return IsSuperBlock(weight) ? 256 : kLinearUnit; }

// Bytes from row to row of x in shared memory: the rows that lanes read together, eight of 16 bytes
// or sixteen of 8, lie in different banks.
constexpr int LinearPitch(DType weight, LinearArithmetic arithmetic) {
  if (arithmetic == LinearArithmetic::kExact) {
    const bool dense = weight == DType::kF32 || !IsPlainWeight(weight);
    return LinearUnitOf(weight) * 4 + (dense ? 64 : 16);
  }
  if (!IsPlainWeight(weight)) return LinearUnitOf(weight) * 2 + 32;
  return LinearUnitOf(weight) * 2 + (weight == DType::kF8E4M3 ? 16 : 64);
}

// Bytes of a block; 0 for plain formats.
constexpr int LinearBlockBytes(DType weight) {
  switch (weight) {
    case DType::kQ8_0:
      return 34;
    case DType::kQ4_0:
    case DType::kIQ4_NL:
      return 18;
    case DType::kQ4_1:
      return 20;
    case DType::kQ5_0:
      return 22;
    case DType::kQ5_1:
      return 24;
    case DType::kQ2_K:
      return 84;
    case DType::kQ3_K:
      return 110;
    case DType::kQ4_K:
      return 144;
    case DType::kQ5_K:
      return 176;
    case DType::kQ6_K:
      return 210;
    case DType::kMXFP4:
      return 17;
    default:
      return 0;
  }
}

// Blocks of a row that a warp fetches at a time, and the bytes from row to row of what it fetched:
// whole words of 16 bytes around the blocks, an odd number of them, so that the eight rows that a
// warp reads together lie in different banks.
inline constexpr int kFetchStages = 2;
constexpr int LinearFetchBlocks(DType weight) { return IsSuperBlock(weight) ? 1 : 4; }
constexpr int LinearFetchPitch(DType weight) {
  const int words = (LinearFetchBlocks(weight) * LinearBlockBytes(weight) + 15) / 16 + 1;
  return 16 * (words | 1);
}

struct LinearParams {
  const void* x = nullptr;  // rows that begin at multiples of 16 bytes and hold all units
  const void* weight = nullptr;
  const void* bias = nullptr;      // or null
  const void* residual = nullptr;  // or null; may be out
  void* out = nullptr;
  int64_t out_stride = 0, residual_stride = 0;  // elements
  int64_t row_bytes = 0;                        // of the weight
  int x_stride = 0;                             // in 16 bytes
  int m = 0, n = 0, k = 0;
  int units = 0, units_per_slice = 0;
  DType bias_type = DType::kF32;
  DType result = DType::kF32;  // of out and residual
};

// Products of the rows of experts with their own weights, which lie one behind another.
struct GroupedLinearParams {
  LinearParams each;                // of the first expert; m is not read
  const int32_t* tokens = nullptr;  // by place, its row of x; null: the place itself
  const int32_t* starts = nullptr;  // [experts + 1]: where the places of each expert begin
  int64_t expert_bytes = 0;         // from weight to weight
  int64_t bias_bytes = 0;           // from bias to bias
  int experts = 0;
};

// Copies rows of x: [m, k] of `from` to `to` with dense rows of `width` elements, zeros behind k.
struct StageParams {
  const void* x = nullptr;
  void* out = nullptr;
  int64_t x_stride = 0;
  int m = 0, k = 0, width = 0;
  DType from = DType::kF32;
  DType to = DType::kF32;
};

}  // namespace sluice::cuda
