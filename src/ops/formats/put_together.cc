#include <cstring>

#include "base/check.h"
#include "ops/formats/format.h"

namespace sluice::ops {

namespace {

void Store16(uint16_t value, uint8_t* out) { std::memcpy(out, &value, sizeof value); }

// 32 codes of 4 bits in 16 bytes: the low halves first. Higher bits are left out.
void PutNibbles32(const uint8_t* codes, uint8_t* out) {
  for (int i = 0; i < 16; ++i) {
    out[i] = static_cast<uint8_t>((codes[i] & 15) | (codes[i + 16] & 15) << 4);
  }
}

void PutNibbles(const BlockFormat& format, const BlockParts& parts, uint8_t* out) {
  Store16(parts.d, out);
  out += 2;
  if (format.minimum) {
    Store16(parts.m, out);
    out += 2;
  }
  if (format.bits == 5) {
    uint32_t high = 0;
    for (int i = 0; i < 32; ++i) high |= static_cast<uint32_t>(parts.codes[i] >> 4 & 1) << i;
    std::memcpy(out, &high, sizeof high);
    out += sizeof high;
  }
  PutNibbles32(parts.codes, out);
}

// The two low bits of 256 codes, as Q2_K and Q3_K have them. `out` is zero.
void PutPairs(const BlockParts& parts, uint8_t* out) {
  for (int e = 0; e < 256; ++e) {
    out[e / 128 * 32 + e % 32] |= static_cast<uint8_t>((parts.codes[e] & 3) << (e % 128 / 32 * 2));
  }
}

void PutQ2K(const BlockParts& parts, uint8_t* out) {
  for (int i = 0; i < 16; ++i) {
    out[i] = static_cast<uint8_t>((parts.scales[i] & 15) | (parts.mins[i] & 15) << 4);
  }
  PutPairs(parts, out + 16);
  Store16(parts.d, out + 80);
  Store16(parts.m, out + 82);
}

void PutQ3K(const BlockParts& parts, uint8_t* out) {
  uint8_t* scales = out + 96;
  for (int e = 0; e < 256; ++e) {
    out[e % 32] |= static_cast<uint8_t>((parts.codes[e] >> 2 & 1) << (e / 32));
  }
  PutPairs(parts, out + 32);
  for (int i = 0; i < 16; ++i) {
    const int scale = parts.scales[i] + 32;
    scales[i % 8] |= static_cast<uint8_t>((scale & 15) << (i < 8 ? 0 : 4));
    scales[8 + i % 4] |= static_cast<uint8_t>((scale >> 4 & 3) << (i / 4 * 2));
  }
  Store16(parts.d, out + 108);
}

// The 12 bytes of Q4_K and Q5_K: eight scales and eight minimums of 6 bits.
void PutSixBitScales(const BlockParts& parts, uint8_t* out) {
  for (int i = 0; i < 4; ++i) {
    const int scale = parts.scales[i + 4], minimum = parts.mins[i + 4];
    out[i] = static_cast<uint8_t>((parts.scales[i] & 63) | (scale >> 4 & 3) << 6);
    out[i + 4] = static_cast<uint8_t>((parts.mins[i] & 63) | (minimum >> 4 & 3) << 6);
    out[i + 8] = static_cast<uint8_t>((scale & 15) | (minimum & 15) << 4);
  }
}

void PutQ4K(const BlockParts& parts, bool five_bits, uint8_t* out) {
  Store16(parts.d, out);
  Store16(parts.m, out + 2);
  PutSixBitScales(parts, out + 4);
  uint8_t* low = five_bits ? out + 48 : out + 16;
  for (int i = 0; i < 4; ++i) {
    for (int j = 0; j < 32; ++j) {
      const uint8_t* codes = parts.codes + i * 64 + j;
      low[i * 32 + j] = static_cast<uint8_t>((codes[0] & 15) | (codes[32] & 15) << 4);
    }
  }
  if (!five_bits) return;
  for (int e = 0; e < 256; ++e) {
    out[16 + e % 32] |= static_cast<uint8_t>((parts.codes[e] >> 4 & 1) << (e / 32));
  }
}

void PutQ6K(const BlockParts& parts, uint8_t* out) {
  for (int e = 0; e < 256; ++e) {
    const int half = e / 128, quarter = e % 128 / 32, i = e % 32;
    out[half * 64 + quarter % 2 * 32 + i] |=
        static_cast<uint8_t>((parts.codes[e] & 15) << (quarter < 2 ? 0 : 4));
    out[128 + half * 32 + i] |= static_cast<uint8_t>((parts.codes[e] >> 4 & 3) << (quarter * 2));
  }
  std::memcpy(out + 192, parts.scales, 16);
  Store16(parts.d, out + 208);
}

}  // namespace

void PutTogether(const BlockFormat& format, const BlockParts& parts, std::byte* block) {
  auto* out = reinterpret_cast<uint8_t*>(block);
  std::memset(out, 0, static_cast<size_t>(Info(format.dtype).bytes));
  switch (format.dtype) {
    case DType::kQ8_0:
      Store16(parts.d, out);
      for (int i = 0; i < 32; ++i) out[2 + i] = parts.codes[i] ^ 0x80;
      return;
    case DType::kMXFP4:
      out[0] = static_cast<uint8_t>(parts.d);
      return PutNibbles32(parts.codes, out + 1);
    case DType::kQ2_K:
      return PutQ2K(parts, out);
    case DType::kQ3_K:
      return PutQ3K(parts, out);
    case DType::kQ4_K:
      return PutQ4K(parts, false, out);
    case DType::kQ5_K:
      return PutQ4K(parts, true, out);
    case DType::kQ6_K:
      return PutQ6K(parts, out);
    default:
      return PutNibbles(format, parts, out);
  }
}

}  // namespace sluice::ops
