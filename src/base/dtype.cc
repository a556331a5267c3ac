#include "base/dtype.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace sluice {

const DTypeInfo& Info(DType dtype) {
  static constexpr DTypeInfo kInfos[kDTypeCount] = {
      {"F32", 1, 4},        {"F16", 1, 2},        {"BF16", 1, 2},      {"F8_E4M3", 1, 1},
      {"I8", 1, 1},         {"I32", 1, 4},        {"I64", 1, 8},       {"U8", 1, 1},
      {"Q8_0", 32, 34},     {"Q4_0", 32, 18},     {"Q4_1", 32, 20},    {"Q5_0", 32, 22},
      {"Q5_1", 32, 24},     {"Q2_K", 256, 84},    {"Q3_K", 256, 110},  {"Q4_K", 256, 144},
      {"Q5_K", 256, 176},   {"Q6_K", 256, 210},   {"IQ4_NL", 32, 18},  {"MXFP4", 32, 17},
      {"IQ4_XS", 256, 136}, {"IQ3_XXS", 256, 98}, {"IQ3_S", 256, 110}, {"IQ2_XXS", 256, 66},
      {"IQ2_XS", 256, 74},  {"IQ2_S", 256, 82},   {"IQ1_S", 256, 50},  {"IQ1_M", 256, 56},
      {"TQ1_0", 256, 54},   {"TQ2_0", 256, 66},   {"NVFP4", 64, 36},
  };
  return kInfos[static_cast<int>(dtype)];
}

float F16ToF32(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1f;
  const uint32_t mantissa = bits & 0x3ffu;
  if (exponent == 0) {
    const float magnitude = std::ldexp(static_cast<float>(mantissa), -24);
    return std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | sign);
  }
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

uint16_t F32ToF16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return sign | 0x7e00u;   // NaN
  if (magnitude >= 0x47800000u) return sign | 0x7c00u;  // 65536 and above: infinity
  if (magnitude < 0x38800000u) {
    // Subnormal: adding 0.5 aligns the mantissa to 2^-24 and rounds to nearest even.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return sign | static_cast<uint16_t>(std::bit_cast<uint32_t>(shifted) - 0x3f000000u);
  }
  const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return sign | static_cast<uint16_t>((rounded - 0x38000000u) >> 13);
}

uint16_t F32ToBF16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

float F8E4M3ToF32(uint8_t bits) {
  const int exponent = (bits >> 3) & 0xf;
  const int mantissa = bits & 7;
  const float sign = (bits & 0x80) ? -1.0f : 1.0f;
  if (exponent == 15 && mantissa == 7) return std::bit_cast<float>(0x7fc00000u);
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(mantissa), -9);
  return sign * std::ldexp(static_cast<float>(8 + mantissa), exponent - 10);
}

uint8_t F32ToF8E4M3(float value) {
  const uint8_t sign = std::signbit(value) ? 0x80 : 0;
  if (std::isnan(value)) return sign | 0x7f;
  const float magnitude = std::fabs(value);
  if (magnitude >= 448.0f) return sign | 0x7e;
  int exponent = 0;
  std::frexp(magnitude, &exponent);
  // Exponent of one mantissa step; below 2^-6 (and for 0, where frexp says 0) that of subnormals.
  const int scale = magnitude < 0.015625f ? -9 : exponent - 4;
  const int steps = static_cast<int>(std::nearbyint(std::ldexp(magnitude, -scale)));
  if (steps < 8 && scale == -9) return sign | static_cast<uint8_t>(steps);
  // A carry to 16 steps moves the exponent by itself.
  return sign | static_cast<uint8_t>(((scale + 10) << 3) + (steps - 8));
}

}  // namespace sluice
