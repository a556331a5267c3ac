// The numbers that GGUF files use for types, for the parser and the writer. Plain data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/dtype.h"

namespace sluice::files {

inline constexpr uint64_t kGgufAlignmentDefault = 32;

// Of metadata values.
enum GgufValueType : uint32_t {
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kF32,
  kBool,
  kString,
  kArray,
  kU64,
  kI64,
  kF64,
  kValueTypeCount,
};

// Of tensors, as ggml numbers them.
struct GgmlType {
  DType dtype;
  uint32_t number;
};
inline constexpr GgmlType kGgmlTypes[] = {
    {DType::kF32, 0},      {DType::kF16, 1},    {DType::kQ4_0, 2},     {DType::kQ4_1, 3},
    {DType::kQ5_0, 6},     {DType::kQ5_1, 7},   {DType::kQ8_0, 8},     {DType::kQ2_K, 10},
    {DType::kQ3_K, 11},    {DType::kQ4_K, 12},  {DType::kQ5_K, 13},    {DType::kQ6_K, 14},
    {DType::kIQ4_NL, 20},  {DType::kI8, 24},    {DType::kI32, 26},     {DType::kI64, 27},
    {DType::kBF16, 30},    {DType::kMXFP4, 39}, {DType::kIQ2_XXS, 16}, {DType::kIQ2_XS, 17},
    {DType::kIQ3_XXS, 18}, {DType::kIQ1_S, 19}, {DType::kIQ3_S, 21},   {DType::kIQ2_S, 22},
    {DType::kIQ4_XS, 23},  {DType::kIQ1_M, 29}, {DType::kTQ1_0, 34},   {DType::kTQ2_0, 35},
    {DType::kNVFP4, 40},
};

// Nothing when the other side has no such type.
inline std::optional<DType> DTypeOfGgml(uint32_t number) {
  for (const GgmlType& type : kGgmlTypes) {
    if (type.number == number) return type.dtype;
  }
  return std::nullopt;
}
inline std::optional<uint32_t> GgmlOfDType(DType dtype) {
  for (const GgmlType& type : kGgmlTypes) {
    if (type.dtype == dtype) return type.number;
  }
  return std::nullopt;
}

}  // namespace sluice::files
