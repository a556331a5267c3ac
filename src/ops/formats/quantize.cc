#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "ops/formats/format.h"
#include "ops/formats/quantize_k.h"
#include "ops/formats/rows.h"

namespace sluice::ops {

namespace {

constexpr int kBlock = 32;

template <class Stored, class Convert>
void ConvertRow(std::span<const float> in, std::byte* row, Convert convert) {
  for (size_t i = 0; i < in.size(); ++i) {
    const Stored stored = convert(in[i]);
    std::memcpy(row + i * sizeof stored, &stored, sizeof stored);
  }
}

// The nearest code of [low, high]; NaN gives low.
int Nearest(float value, int low, int high) {
  if (!(value > static_cast<float>(low))) return low;
  if (value >= static_cast<float>(high)) return high;
  return static_cast<int>(std::lrintf(value));
}

float Inverse(float scale) { return scale != 0.0f ? 1.0f / scale : 0.0f; }

// Q8_0: the extreme maps to 127 or -127.
void FitQ8(const BlockFormat& format, const float* in, BlockParts* parts) {
  float largest = 0.0f;
  for (int i = 0; i < kBlock; ++i) largest = std::max(largest, std::fabs(in[i]));
  const float d = largest / 127.0f;
  const float inverse = Inverse(d);
  parts->d = F32ToF16(d);
  for (int i = 0; i < kBlock; ++i) {
    parts->codes[i] = static_cast<uint8_t>(Nearest(in[i] * inverse, -127, 127) + format.offset);
  }
}

// Q4_0, Q4_1, Q5_0, Q5_1: symmetric (the extreme maps to the lowest code, which has one step more
// than the highest) or with a minimum.
void FitNibbles(const BlockFormat& format, const float* in, BlockParts* parts) {
  const int top = (1 << format.bits) - 1, half = 1 << (format.bits - 1);
  float low = in[0], high = in[0], extreme = 0.0f;
  for (int i = 0; i < kBlock; ++i) {
    low = std::min(low, in[i]);
    high = std::max(high, in[i]);
    if (std::fabs(in[i]) > std::fabs(extreme)) extreme = in[i];
  }
  const float d =
      format.minimum ? (high - low) / static_cast<float>(top) : extreme / static_cast<float>(-half);
  const float inverse = Inverse(d);
  parts->d = F32ToF16(d);
  parts->m = format.minimum ? F32ToF16(low) : 0;
  for (int i = 0; i < kBlock; ++i) {
    const float steps =
        format.minimum ? (in[i] - low) * inverse : in[i] * inverse + static_cast<float>(half);
    parts->codes[i] = static_cast<uint8_t>(Nearest(steps, 0, top));
  }
}

void QuantizeBlock(const BlockFormat& format, const float* in, std::byte* block) {
  BlockParts parts;
  if (format.sub_scales) {
    FitSuperBlock(format, in, &parts);
  } else if (format.bits == 8) {
    FitQ8(format, in, &parts);
  } else {
    FitNibbles(format, in, &parts);
  }
  PutTogether(format, parts, block);
}

}  // namespace

bool CanQuantize(DType dtype) {
  switch (dtype) {
    case DType::kTQ1_0:
    case DType::kTQ2_0:
    case DType::kI8:
      return false;
    default:
      break;
  }
  const BlockFormat* format = FindBlockFormat(dtype);
  return format != nullptr ? !format->table && !format->codebook : CanDequantize(dtype);
}

void QuantizeRow(DType dtype, std::span<const float> in, std::byte* row) {
  CHECK(CanQuantize(dtype), "no quantizer for ", Name(dtype));
  switch (dtype) {
    case DType::kF32:
      if (!in.empty()) std::memcpy(row, in.data(), in.size_bytes());
      return;
    case DType::kF16:
      return ConvertRow<uint16_t>(in, row, F32ToF16);
    case DType::kBF16:
      return ConvertRow<uint16_t>(in, row, F32ToBF16);
    case DType::kF8E4M3:
      return ConvertRow<uint8_t>(in, row, F32ToF8E4M3);
    default:
      break;
  }
  const BlockFormat& format = *FindBlockFormat(dtype);
  CHECK(in.size() % format.block == 0, in.size(), " elements are no whole blocks of ", Name(dtype));
  for (size_t i = 0; i < in.size(); i += format.block) {
    QuantizeBlock(format, in.data() + i, row);
    row += Info(dtype).bytes;
  }
}

}  // namespace sluice::ops
