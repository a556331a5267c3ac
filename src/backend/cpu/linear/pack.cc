#include "backend/cpu/linear/pack.h"

#include <cstring>

#include "backend/cpu/linear/packed.h"
#include "ops/formats/format.h"

namespace sluice::cpu {

namespace {

// Bytes of the scales of one block of the file, for all rows of a group.
size_t ScaleRecordBytes(const ops::BlockFormat& format, int lanes) {
  size_t bytes = format.scale == ops::BlockScale::kF16    ? 2
                 : format.scale == ops::BlockScale::kE8M0 ? 1
                                                          : 0;
  if (format.minimum) bytes += 2;
  if (format.sub_scales) {
    const size_t per_sub = format.minimum && format.bits != 2 ? 2 : 1;
    bytes += per_sub * (format.block / format.sub);
  }
  return bytes * lanes;
}

// One row's codes of 32 elements into the bit planes of its group, four codes a word. `out` is the
// row's first word of the first vector; vectors are `vector` bytes apart.
void PackCodes(int bits, const uint8_t* codes, size_t vector, std::byte* out) {
  uint32_t words[8];
  std::memcpy(words, codes, sizeof words);
  auto put = [&](uint32_t word) {
    std::memcpy(out, &word, sizeof word);
    out += vector;
  };
  if (bits == 8) {
    for (const uint32_t word : words) put(word);
    return;
  }
  int shift = 0;
  auto plane = [&](int i, uint32_t mask) { return words[i] >> shift & mask; };
  if (bits >= 4) {
    for (int v = 0; v < 8; v += 2) put(plane(v, 0x0f0f0f0fu) | plane(v + 1, 0x0f0f0f0fu) << 4);
    shift = 4;
  }
  if ((bits & 2) != 0) {
    for (int v = 0; v < 8; v += 4) {
      constexpr uint32_t kTwo = 0x03030303u;
      put(plane(v, kTwo) | plane(v + 1, kTwo) << 2 | plane(v + 2, kTwo) << 4 |
          plane(v + 3, kTwo) << 6);
    }
    shift += 2;
  }
  if ((bits & 1) != 0) {
    uint32_t word = 0;
    for (int v = 0; v < 8; ++v) word |= plane(v, 0x01010101u) << v;
    put(word);
  }
}

void PackScales(const ops::BlockFormat& format, const ops::BlockParts& parts, int lanes, int lane,
                std::byte* out) {
  if (format.scale == ops::BlockScale::kE8M0) {
    out[lane] = static_cast<std::byte>(parts.d);
    return;
  }
  if (format.scale == ops::BlockScale::kF16) {
    std::memcpy(out + 2 * lane, &parts.d, 2);
    out += 2 * lanes;
  }
  if (format.minimum) {
    std::memcpy(out + 2 * lane, &parts.m, 2);
    out += 2 * lanes;
  }
  if (!format.sub_scales) return;
  for (int i = 0; i < format.block / format.sub; ++i) {
    if (format.minimum && format.bits == 2) {
      out[lane] = static_cast<std::byte>(parts.scales[i] | parts.mins[i] << 4);
    } else {
      out[lane] = static_cast<std::byte>(parts.scales[i]);
      if (format.minimum) {
        out += lanes;
        out[lane] = static_cast<std::byte>(parts.mins[i]);
      }
    }
    out += lanes;
  }
}

void PackBlockRow(const ops::BlockFormat& format, int64_t k, int lanes, int lane,
                  const std::byte* row, std::byte* group) {
  const size_t vector = static_cast<size_t>(lanes) * 4;
  const size_t code_bytes = vector * format.bits;
  const size_t record_bytes = ScaleRecordBytes(format, lanes);
  std::byte* codes = group + 4 * lane;
  std::byte* scales = group + k / kActivationBlock * code_bytes;
  ops::BlockParts parts;
  for (int64_t begin = 0; begin < k; begin += format.block) {
    ops::TakeApart(format, row, &parts);
    row += BlockBytes(format);
    for (int i = 0; i < format.block; i += kActivationBlock) {
      PackCodes(format.bits, parts.codes + i, vector, codes);
      codes += code_bytes;
    }
    PackScales(format, parts, lanes, lane, scales);
    scales += record_bytes;
  }
}

void PackPlainRow(int bytes, int64_t k, int lanes, int lane, const std::byte* row,
                  std::byte* group) {
  std::byte* out = group + static_cast<size_t>(lane) * bytes;
  for (int64_t i = 0; i < k; ++i) {
    std::memcpy(out, row, bytes);
    row += bytes;
    out += static_cast<size_t>(lanes) * bytes;
  }
}

}  // namespace

size_t GroupBytes(DType dtype, int64_t k, int lanes) {
  size_t bytes = 0;
  if (const ops::BlockFormat* format = ops::FindBlockFormat(dtype)) {
    bytes = static_cast<size_t>(k) / kActivationBlock * lanes * 4 * format->bits +
            static_cast<size_t>(k) / format->block * ScaleRecordBytes(*format, lanes);
  } else {
    bytes = static_cast<size_t>(k) * lanes * Info(dtype).bytes;
  }
  return (bytes + kGroupAlignment - 1) / kGroupAlignment * kGroupAlignment;
}

size_t PackedBytes(const ops::Linear::Desc& desc, int lanes) {
  return GroupBytes(desc.weight, desc.k, lanes) *
         ((static_cast<size_t>(desc.n) + lanes - 1) / lanes);
}

Status PackRows(const ops::Linear::Desc& desc, int lanes, int64_t first_row,
                std::span<const std::byte> rows, std::span<std::byte> packed) {
  SLUICE_RETURN_IF_ERROR(ops::CheckPackedRows(desc, first_row, rows.size()));
  if (packed.size() != PackedBytes(desc, lanes)) {
    return InvalidArgument(StrCat("the packed weight has ", packed.size(), " bytes, ",
                                  desc.ToString(), " needs ", PackedBytes(desc, lanes)));
  }
  const size_t row_bytes = RowBytes(desc.weight, static_cast<size_t>(desc.k));
  const size_t group_bytes = GroupBytes(desc.weight, desc.k, lanes);
  const ops::BlockFormat* format = ops::FindBlockFormat(desc.weight);
  const int64_t count = static_cast<int64_t>(rows.size() / row_bytes);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t row = first_row + i;
    std::byte* group = packed.data() + row / lanes * group_bytes;
    const int lane = static_cast<int>(row % lanes);
    const std::byte* in = rows.data() + i * row_bytes;
    if (format != nullptr) {
      PackBlockRow(*format, desc.k, lanes, lane, in, group);
    } else {
      PackPlainRow(Info(desc.weight).bytes, desc.k, lanes, lane, in, group);
    }
  }
  return OkStatus();
}

}  // namespace sluice::cpu
