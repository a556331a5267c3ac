#include <cstring>

#include "base/check.h"
#include "ops/formats/format.h"
#include "ops/formats/rows.h"

namespace sluice::ops {

namespace {

template <class Stored, class Convert>
void ConvertRow(const std::byte* row, std::span<float> out, Convert convert) {
  for (size_t i = 0; i < out.size(); ++i) {
    Stored stored;
    std::memcpy(&stored, row + i * sizeof stored, sizeof stored);
    out[i] = convert(stored);
  }
}

// The whole of a format in one place; products of scale and value are exact in F32, so that the
// result is rounded once, whether or not the addition is fused.
void DequantizeBlock(const BlockFormat& format, const std::byte* block, float* out) {
  BlockParts parts;
  TakeApart(format, block, &parts);
  if (format.table) {
    const auto values = CodeValues(format.dtype);
    for (int i = 0; i < format.block; ++i) parts.codes[i] = values[parts.codes[i]];
  }
  for (int i = 0; i < format.block / format.sub; ++i) {
    const float scale = ScaleOf(format, parts, i);
    const uint8_t* codes = parts.codes + i * format.sub;
    float* sub = out + i * format.sub;
    for (int j = 0; j < format.sub; ++j) {
      sub[j] = scale * static_cast<float>(static_cast<int>(codes[j]) - format.offset);
    }
    if (!format.minimum) continue;
    const float minimum = MinimumOf(format, parts, i);
    for (int j = 0; j < format.sub; ++j) sub[j] += minimum;
  }
}

}  // namespace

bool CanDequantize(DType dtype) {
  switch (dtype) {
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16:
    case DType::kF8E4M3:
      return true;
    default:
      return FindBlockFormat(dtype) != nullptr;
  }
}

void DequantizeRow(DType dtype, const std::byte* row, std::span<float> out) {
  switch (dtype) {
    case DType::kF32:
      if (!out.empty()) std::memcpy(out.data(), row, out.size_bytes());
      return;
    case DType::kF16:
      return ConvertRow<uint16_t>(row, out, F16ToF32);
    case DType::kBF16:
      return ConvertRow<uint16_t>(row, out, BF16ToF32);
    case DType::kF8E4M3:
      return ConvertRow<uint8_t>(row, out, F8E4M3ToF32);
    case DType::kI8:
      return ConvertRow<int8_t>(row, out, [](int8_t code) { return static_cast<float>(code); });
    default:
      break;
  }
  const BlockFormat* format = FindBlockFormat(dtype);
  CHECK(format != nullptr, Name(dtype), " has no floating-point values");
  CHECK(out.size() % format->block == 0, out.size(), " elements are no whole blocks of ",
        Name(dtype));
  for (size_t i = 0; i < out.size(); i += format->block) {
    DequantizeBlock(*format, row, out.data() + i);
    row += BlockBytes(*format);
  }
}

}  // namespace sluice::ops
