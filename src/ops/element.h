// One element at a time of a plain floating-point format, or of the codes that a format with scales
// beside it keeps: what plain-loop references are made of.
#pragma once

#include <algorithm>
#include <cmath>

#include "ops/tensor.h"

namespace sluice::ops {

inline bool IsPlainFloat(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16;
}

// REQUIRES: IsPlainFloat(dtype) or IsCode(dtype).
inline float LoadElement(DType dtype, const std::byte* data, int64_t index) {
  if (dtype == DType::kF8E4M3) return F8E4M3ToF32(static_cast<uint8_t>(data[index]));
  if (dtype == DType::kI8) return static_cast<float>(static_cast<int8_t>(data[index]));
  if (dtype == DType::kF32) return reinterpret_cast<const float*>(data)[index];
  const uint16_t bits = reinterpret_cast<const uint16_t*>(data)[index];
  return dtype == DType::kF16 ? F16ToF32(bits) : BF16ToF32(bits);
}

// Rounds to nearest even. A code stops at +-448 or +-127; the I8 of a NaN is 0.
// REQUIRES: IsPlainFloat(dtype) or IsCode(dtype).
inline void StoreElement(DType dtype, std::byte* data, int64_t index, float value) {
  if (dtype == DType::kF8E4M3) {
    data[index] = static_cast<std::byte>(F32ToF8E4M3(value));
  } else if (dtype == DType::kI8) {
    const float near = std::isnan(value) ? 0.0f : std::clamp(value, -127.0f, 127.0f);
    data[index] = static_cast<std::byte>(static_cast<int8_t>(std::nearbyint(near)));
  } else if (dtype == DType::kF32) {
    reinterpret_cast<float*>(data)[index] = value;
  } else {
    reinterpret_cast<uint16_t*>(data)[index] =
        dtype == DType::kF16 ? F32ToF16(value) : F32ToBF16(value);
  }
}

// The value as `dtype` keeps it. REQUIRES: IsPlainFloat(dtype).
inline float RoundTo(DType dtype, float value) {
  if (dtype == DType::kF32) return value;
  return dtype == DType::kF16 ? F16ToF32(F32ToF16(value)) : BF16ToF32(F32ToBF16(value));
}

// Row `row` of a tensor of rank 2 of a plain format.
inline std::byte* RowData(const Tensor& t, int64_t row) {
  return t.data + row * t.strides[0] * Info(t.dtype).bytes;
}

}  // namespace sluice::ops
