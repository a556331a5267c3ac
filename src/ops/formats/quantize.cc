#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
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

void Store16(uint16_t value, std::byte** out) {
  std::memcpy(*out, &value, sizeof value);
  *out += sizeof value;
}

// The nearest code of [low, high]; NaN gives low.
int Nearest(float value, int low, int high) {
  if (!(value > static_cast<float>(low))) return low;
  if (value >= static_cast<float>(high)) return high;
  return static_cast<int>(std::lrintf(value));
}

float Inverse(float scale) { return scale != 0.0f ? 1.0f / scale : 0.0f; }

void QuantizeQ8(const float* in, std::byte* out) {
  float largest = 0.0f;
  for (int i = 0; i < kBlock; ++i) largest = std::max(largest, std::fabs(in[i]));
  const float d = largest / 127.0f;
  const float inverse = Inverse(d);
  Store16(F32ToF16(d), &out);
  for (int i = 0; i < kBlock; ++i) {
    out[i] = static_cast<std::byte>(Nearest(in[i] * inverse, -127, 127));
  }
}

// Q4_0, Q4_1, Q5_0, Q5_1: `bits` of 4 or 5; symmetric (the extreme maps to the lowest code, which
// has one step more than the highest) or with a minimum.
void QuantizeNibbles(const float* in, int bits, bool minimum, std::byte* out) {
  const int top = (1 << bits) - 1, half = 1 << (bits - 1);
  float low = in[0], high = in[0], extreme = 0.0f;
  for (int i = 0; i < kBlock; ++i) {
    low = std::min(low, in[i]);
    high = std::max(high, in[i]);
    if (std::fabs(in[i]) > std::fabs(extreme)) extreme = in[i];
  }
  const float d =
      minimum ? (high - low) / static_cast<float>(top) : extreme / static_cast<float>(-half);
  const float inverse = Inverse(d);
  Store16(F32ToF16(d), &out);
  if (minimum) Store16(F32ToF16(low), &out);
  uint32_t high_bits = 0;
  uint8_t nibbles[16] = {};
  for (int i = 0; i < kBlock; ++i) {
    const float steps =
        minimum ? (in[i] - low) * inverse : in[i] * inverse + static_cast<float>(half);
    const int code = Nearest(steps, 0, top);
    nibbles[i % 16] |= static_cast<uint8_t>((code & 15) << (i < 16 ? 0 : 4));
    high_bits |= static_cast<uint32_t>(code >> 4) << i;
  }
  if (bits == 5) {
    std::memcpy(out, &high_bits, sizeof high_bits);
    out += sizeof high_bits;
  }
  std::memcpy(out, nibbles, sizeof nibbles);
}

}  // namespace

bool CanQuantize(DType dtype) {
  switch (dtype) {
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16:
    case DType::kF8E4M3:
    case DType::kQ8_0:
    case DType::kQ4_0:
    case DType::kQ4_1:
    case DType::kQ5_0:
    case DType::kQ5_1:
      return true;
    default:
      return false;
  }
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
  CHECK(in.size() % kBlock == 0, in.size(), " elements are no whole blocks of ", Name(dtype));
  const bool minimum = dtype == DType::kQ4_1 || dtype == DType::kQ5_1;
  const int bits = dtype == DType::kQ5_0 || dtype == DType::kQ5_1 ? 5 : 4;
  for (size_t i = 0; i < in.size(); i += kBlock) {
    if (dtype == DType::kQ8_0) {
      QuantizeQ8(in.data() + i, row);
    } else {
      QuantizeNibbles(in.data() + i, bits, minimum, row);
    }
    row += Info(dtype).bytes;
  }
}

}  // namespace sluice::ops
