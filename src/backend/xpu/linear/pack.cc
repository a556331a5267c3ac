#include "backend/xpu/linear/pack.h"

#include <cstring>

#include "base/check.h"
#include "base/str_cat.h"

namespace sluice::xpu {
namespace {

using ops::BlockFormat;
using ops::BlockParts;

void StoreNumber(bool half, float value, uint16_t bits, int lane, std::byte* to) {
  if (half) {
    std::memcpy(to + lane * 2, &bits, 2);
  } else {
    std::memcpy(to + lane * 4, &value, 4);
  }
}

// Where the nibble of element i of a sub-block lies: byte and half.
struct NibblePlace {
  int byte;
  bool high;
};
NibblePlace PlaceOf(ops::LayoutId layout, int i, int lane) {
  if (layout == ops::LayoutId::kXpuNibbles16)
    return {i / 8 * 4 * static_cast<int>(kPackedRows) + lane * 4 + i % 4, i % 8 >= 4};
  return {i / 2 * static_cast<int>(kPackedRows) + lane, i % 2 != 0};
}

// One sub-block of the row in `lane`.
void PackSub(const PackedShape& shape, ops::LayoutId layout, const BlockParts& parts, int sub,
             int lane, std::byte* to) {
  const BlockFormat& format = *shape.format;
  for (int i = 0; i < format.sub; ++i) {
    const int code = parts.codes[sub * format.sub + i];
    if (shape.nibbles) {
      const NibblePlace place = PlaceOf(layout, i, lane);
      to[place.byte] |= static_cast<std::byte>(place.high ? code << 4 : code);
    } else {
      const int value = format.table ? ops::CodeValues(format.dtype)[code] : code;
      to[i * kPackedRows + lane] = static_cast<std::byte>(value - format.offset);
    }
  }
  to += format.sub * kPackedRows / (shape.nibbles ? 2 : 1);
  const float scale = ScaleOf(format, parts, sub);
  const uint16_t half = format.scale == ops::BlockScale::kF16 ? parts.d : F32ToF16(scale);
  StoreNumber(shape.half_scales, scale, half, lane, to);
  if (!format.minimum) return;
  to += kPackedRows * (shape.half_scales ? 2 : 4);
  StoreNumber(shape.half_scales, MinimumOf(format, parts, sub), parts.m, lane, to);
}

void PackRow(const PackedShape& shape, ops::LayoutId layout, DType weight, int64_t k,
             const std::byte* row, int lane, std::byte* group) {
  if (shape.format == nullptr) {
    const size_t bytes = static_cast<size_t>(Info(weight).bytes);
    for (int64_t i = 0; i < k; ++i)
      std::memcpy(group + i * shape.sub_bytes + lane * bytes, row + i * bytes, bytes);
    return;
  }
  BlockParts parts;
  for (int64_t begin = 0; begin < k; begin += shape.format->block) {
    TakeApart(*shape.format, row + RowBytes(weight, static_cast<size_t>(begin)), &parts);
    for (int sub = 0; sub < shape.format->block / shape.format->sub; ++sub) {
      PackSub(shape, layout, parts, sub, lane, group);
      group += shape.sub_bytes;
    }
  }
}

}  // namespace

PackedShape PackedShapeOf(DType weight, int64_t k) {
  PackedShape shape;
  if (weight != DType::kI8) shape.format = ops::FindBlockFormat(weight);
  if (shape.format == nullptr) {
    shape.sub_bytes = static_cast<size_t>(kPackedRows * Info(weight).bytes);
    shape.group_bytes = shape.sub_bytes * static_cast<size_t>(k);
    return shape;
  }
  const BlockFormat& format = *shape.format;
  shape.e2m1 = weight == DType::kMXFP4 || weight == DType::kNVFP4;
  shape.nibbles = format.bits <= 4 && (!format.table || shape.e2m1);
  shape.half_scales = format.scale == ops::BlockScale::kE4M3 ||
                      (format.scale == ops::BlockScale::kF16 && !format.sub_scales);
  const int codes = format.sub / (shape.nibbles ? 2 : 1);
  const int numbers = (format.minimum ? 2 : 1) * (shape.half_scales ? 2 : 4);
  shape.sub_bytes = static_cast<size_t>(kPackedRows * (codes + numbers));
  shape.group_bytes = shape.sub_bytes * static_cast<size_t>(k / format.sub);
  return shape;
}

size_t PackedBytes(const ops::Linear::Desc& desc) {
  const int64_t groups = (desc.n + kPackedRows - 1) / kPackedRows;
  return PackedShapeOf(desc.weight, desc.k).group_bytes * static_cast<size_t>(groups);
}

namespace {

Status PackAs(ops::LayoutId layout, const ops::Linear::Desc& desc, int64_t first_row,
              std::span<const std::byte> rows, std::span<std::byte> packed) {
  SLUICE_RETURN_IF_ERROR(ops::CheckPackedRows(desc, first_row, rows.size()));
  if (packed.size() != PackedBytes(desc)) {
    return InvalidArgument(StrCat("the packed weight has ", packed.size(), " bytes, ",
                                  desc.ToString(), " needs ", PackedBytes(desc)));
  }
  const PackedShape shape = PackedShapeOf(desc.weight, desc.k);
  const size_t row_bytes = RowBytes(desc.weight, static_cast<size_t>(desc.k));
  for (size_t i = 0; i * row_bytes < rows.size(); ++i) {
    const int64_t row = first_row + static_cast<int64_t>(i);
    PackRow(shape, layout, desc.weight, desc.k, rows.data() + i * row_bytes,
            static_cast<int>(row % kPackedRows),
            packed.data() + static_cast<size_t>(row / kPackedRows) * shape.group_bytes);
  }
  return OkStatus();
}

}  // namespace

Status Pack(const ops::Linear::Desc& desc, int64_t first_row, std::span<const std::byte> rows,
            std::span<std::byte> packed) {
  return PackAs(ops::LayoutId::kXpuInterleaved16, desc, first_row, rows, packed);
}

Status PackNibbles(const ops::Linear::Desc& desc, int64_t first_row,
                   std::span<const std::byte> rows, std::span<std::byte> packed) {
  const PackedShape shape = PackedShapeOf(desc.weight, desc.k);
  CHECK(shape.nibbles && !shape.e2m1, desc.ToString());
  return PackAs(ops::LayoutId::kXpuNibbles16, desc, first_row, rows, packed);
}

}  // namespace sluice::xpu
