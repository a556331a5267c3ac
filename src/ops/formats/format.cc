#include "ops/formats/format.h"

#include <bit>
#include <cstring>

#include "base/check.h"

namespace sluice::ops {

namespace {

uint16_t Load16(const uint8_t* p) {
  uint16_t value;
  std::memcpy(&value, p, sizeof value);
  return value;
}

uint32_t Load32(const uint8_t* p) {
  uint32_t value;
  std::memcpy(&value, p, sizeof value);
  return value;
}

// 16 bytes hold 32 codes of 4 bits: the low halves first.
void Nibbles32(const uint8_t* in, uint8_t* codes) {
  for (int i = 0; i < 16; ++i) {
    codes[i] = in[i] & 15;
    codes[i + 16] = in[i] >> 4;
  }
}

// [d] [m] [high bits] nibbles: Q4_0, Q4_1, Q5_0, Q5_1, IQ4_NL.
void TakeApartNibbles(const BlockFormat& format, const uint8_t* in, BlockParts* parts) {
  parts->d = Load16(in);
  in += 2;
  if (format.minimum) {
    parts->m = Load16(in);
    in += 2;
  }
  if (format.bits == 5) {
    const uint32_t high = Load32(in);
    Nibbles32(in + 4, parts->codes);
    for (int i = 0; i < 32; ++i) parts->codes[i] |= (high >> i & 1) << 4;
  } else {
    Nibbles32(in, parts->codes);
  }
}

void TakeApartQ2K(const uint8_t* in, BlockParts* parts) {
  for (int i = 0; i < 16; ++i) {
    parts->scales[i] = static_cast<int8_t>(in[i] & 15);
    parts->mins[i] = static_cast<int8_t>(in[i] >> 4);
  }
  const uint8_t* codes = in + 16;
  for (int e = 0; e < 256; ++e) {
    parts->codes[e] = codes[e / 128 * 32 + e % 32] >> (e % 128 / 32 * 2) & 3;
  }
  parts->d = Load16(in + 80);
  parts->m = Load16(in + 82);
}

void TakeApartQ3K(const uint8_t* in, BlockParts* parts) {
  const uint8_t *high = in, *codes = in + 32, *scales = in + 96;
  for (int e = 0; e < 256; ++e) {
    const int low = codes[e / 128 * 32 + e % 32] >> (e % 128 / 32 * 2) & 3;
    parts->codes[e] = static_cast<uint8_t>(low | (high[e % 32] >> (e / 32) & 1) << 2);
  }
  for (int i = 0; i < 16; ++i) {
    const int low = i < 8 ? scales[i] & 15 : scales[i - 8] >> 4;
    const int top = scales[8 + i % 4] >> (i / 4 * 2) & 3;
    parts->scales[i] = static_cast<int8_t>((low | top << 4) - 32);
  }
  parts->d = Load16(in + 108);
}

// The 12 bytes of Q4_K and Q5_K: eight scales and eight minimums of 6 bits.
void SixBitScales(const uint8_t* in, BlockParts* parts) {
  for (int i = 0; i < 4; ++i) {
    parts->scales[i] = static_cast<int8_t>(in[i] & 63);
    parts->mins[i] = static_cast<int8_t>(in[i + 4] & 63);
    parts->scales[i + 4] = static_cast<int8_t>((in[i + 8] & 15) | in[i] >> 6 << 4);
    parts->mins[i + 4] = static_cast<int8_t>(in[i + 8] >> 4 | in[i + 4] >> 6 << 4);
  }
}

void TakeApartQ4K(const uint8_t* in, BlockParts* parts, bool five_bits) {
  parts->d = Load16(in);
  parts->m = Load16(in + 2);
  SixBitScales(in + 4, parts);
  const uint8_t* high = in + 16;
  const uint8_t* low = five_bits ? in + 48 : in + 16;
  for (int e = 0; e < 256; ++e) {
    const uint8_t both = low[e / 64 * 32 + e % 32];
    parts->codes[e] = e % 64 < 32 ? both & 15 : both >> 4;
    if (five_bits) parts->codes[e] |= (high[e % 32] >> (e / 32) & 1) << 4;
  }
}

void TakeApartQ6K(const uint8_t* in, BlockParts* parts) {
  for (int e = 0; e < 256; ++e) {
    const int half = e / 128, quarter = e % 128 / 32, i = e % 32;
    const uint8_t low = in[half * 64 + quarter % 2 * 32 + i];
    const uint8_t high = in[128 + half * 32 + i];
    parts->codes[e] = static_cast<uint8_t>((quarter < 2 ? low & 15 : low >> 4) |
                                           (high >> (quarter * 2) & 3) << 4);
  }
  std::memcpy(parts->scales, in + 192, 16);
  parts->d = Load16(in + 208);
}

}  // namespace

const BlockFormat* FindBlockFormat(DType dtype) {
  for (const BlockFormat& format : kBlockFormats) {
    if (format.dtype == dtype) return &format;
  }
  return nullptr;
}

std::span<const uint8_t, 16> CodeValues(DType dtype) {
  CHECK(dtype == DType::kIQ4_NL || dtype == DType::kMXFP4, Name(dtype), " has no table");
  if (dtype == DType::kIQ4_NL) return kIq4NlValues;
  return kMxfp4Values;
}

void TakeApart(const BlockFormat& format, const std::byte* block, BlockParts* parts) {
  const auto* in = reinterpret_cast<const uint8_t*>(block);
  parts->m = 0;
  if (!format.sub_scales) {
    std::memset(parts->scales, 1, sizeof parts->scales);
    std::memset(parts->mins, 0, sizeof parts->mins);
  }
  switch (format.dtype) {
    case DType::kQ8_0:
      parts->d = Load16(in);
      for (int i = 0; i < 32; ++i) parts->codes[i] = in[2 + i] ^ 0x80;  // signed value + 128
      return;
    case DType::kMXFP4:
      parts->d = in[0];
      return Nibbles32(in + 1, parts->codes);
    case DType::kQ2_K:
      return TakeApartQ2K(in, parts);
    case DType::kQ3_K:
      return TakeApartQ3K(in, parts);
    case DType::kQ4_K:
      return TakeApartQ4K(in, parts, false);
    case DType::kQ5_K:
      return TakeApartQ4K(in, parts, true);
    case DType::kQ6_K:
      return TakeApartQ6K(in, parts);
    default:
      return TakeApartNibbles(format, in, parts);
  }
}

float ScaleOf(const BlockFormat& format, const BlockParts& parts, int i) {
  if (format.power_of_two_scale) return E8M0HalfToF32(static_cast<uint8_t>(parts.d));
  return F16ToF32(parts.d) * static_cast<float>(parts.scales[i]);
}

float MinimumOf(const BlockFormat& format, const BlockParts& parts, int i) {
  if (!format.minimum) return 0.0f;
  const float m = F16ToF32(parts.m);
  return format.sub_scales ? -m * static_cast<float>(parts.mins[i]) : m;
}

float E8M0HalfToF32(uint8_t exponent) {
  // The two smallest are subnormal in F32.
  const uint32_t bits =
      exponent < 2 ? 0x00200000u << exponent : static_cast<uint32_t>(exponent - 1) << 23;
  return std::bit_cast<float>(bits);
}

}  // namespace sluice::ops
