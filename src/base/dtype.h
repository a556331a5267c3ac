// Number formats of tensors, as files and devices name them. Block formats are those of GGUF:
// `block` consecutive elements of a row share `bytes` bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace sluice {

enum class DType : uint8_t {
  kF32,
  kF16,
  kBF16,
  kF8E4M3,
  kI8,
  kI32,
  kI64,
  kU8,
  kQ8_0,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ2_K,
  kQ3_K,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kIQ4_NL,
  kMXFP4,
  kIQ4_XS,
  kIQ3_XXS,
  kIQ3_S,
  kIQ2_XXS,
  kIQ2_XS,
  kIQ2_S,
  kIQ1_S,
  kIQ1_M,
  kTQ1_0,
  kTQ2_0,
  kNVFP4,
};
inline constexpr int kDTypeCount = static_cast<int>(DType::kNVFP4) + 1;

struct DTypeInfo {
  std::string_view name;  // "F32", "Q4_K", ...
  int block;              // elements per block; 1 for plain types
  int bytes;              // bytes per block
};

const DTypeInfo& Info(DType dtype);
inline std::string_view Name(DType dtype) { return Info(dtype).name; }
inline bool IsQuantized(DType dtype) { return Info(dtype).block > 1; }
// Codes of one byte that mean their number times a scale kept elsewhere.
inline bool IsCode(DType dtype) { return dtype == DType::kF8E4M3 || dtype == DType::kI8; }
// Bytes of a row of `elements`. REQUIRES: elements is a multiple of the block.
inline size_t RowBytes(DType dtype, size_t elements) {
  return elements / Info(dtype).block * Info(dtype).bytes;
}

// Scalar conversions, round to nearest even; infinities and NaN are kept.
float F16ToF32(uint16_t bits);
uint16_t F32ToF16(float value);
inline float BF16ToF32(uint16_t bits) {
  return __builtin_bit_cast(float, static_cast<uint32_t>(bits) << 16);
}
uint16_t F32ToBF16(float value);
float F8E4M3ToF32(uint8_t bits);   // the "fn" form: no infinities, 0x7f and 0xff are NaN
uint8_t F32ToF8E4M3(float value);  // saturates at +-448; NaN stays NaN

}  // namespace sluice
