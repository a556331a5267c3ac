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

// How a kernel multiplies: factors of x as they are, or x in F32 as the sum of three (kExact).
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

// Bytes from row to row of x in shared memory: the rows that eight lanes read together lie in
// different banks.
constexpr int LinearPitch(DType weight, LinearArithmetic arithmetic) {
  if (arithmetic == LinearArithmetic::kExact) {
    const bool dense = weight == DType::kF32 || !IsPlainWeight(weight);
    return LinearUnitOf(weight) * 4 + (dense ? 64 : 16);
  }
  return LinearUnitOf(weight) * 2 + (weight == DType::kF8E4M3 ? 16 : 64);
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
  DType side = DType::kF32;  // of bias and residual
  DType result = DType::kF32;
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
