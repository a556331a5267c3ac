// Types of narrow numbers in memory, so that overloads tell them apart. Plain values.
#pragma once

#include <cstdint>

namespace sluice::cpu {

struct Half {
  uint16_t bits;
};
struct BFloat {
  uint16_t bits;
};

// Codes of one byte. Loading one gives a multiple of kUnit: who multiplies by a scale anyway takes
// scale * kUnit. kMax is the largest.
struct Float8 {  // E4M3, and no NaN
  static constexpr float kUnit = 256.0f, kMax = 448.0f;
  uint8_t bits;
};
struct Int8 {
  static constexpr float kUnit = 1.0f, kMax = 127.0f;
  int8_t value;
};
template <class T>
inline constexpr bool kIsCode = false;
template <>
inline constexpr bool kIsCode<Float8> = true;
template <>
inline constexpr bool kIsCode<Int8> = true;

}  // namespace sluice::cpu
