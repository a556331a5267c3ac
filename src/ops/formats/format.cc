#include "ops/formats/format.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "ops/formats/codebook.h"

namespace sluice::ops {

namespace {

constexpr int8_t kF8Nan = 0x7f;

// Where some bits of a number lie: `width` bits of a byte, from bit `shift` on.
struct Bits {
  int byte, shift, width;
};

// A Reader sets numbers to what a block has of them, a Writer puts them there: a layout is said
// once, in a function that calls either of them. The pieces of a number come from its lowest bits
// on; what is stored is the number less `bias`.
struct Reader {
  const uint8_t* block;

  template <class T, class... Pieces>
  void operator()(T& value, int bias, Pieces... pieces) const {
    int stored = 0, at = 0;
    ((stored |= (block[pieces.byte] >> pieces.shift & ((1 << pieces.width) - 1)) << at,
      at += pieces.width),
     ...);
    value = static_cast<T>(stored + bias);
  }
  void Word(uint16_t& value, int byte) const { std::memcpy(&value, block + byte, sizeof value); }
};

struct Writer {
  uint8_t* block;  // zeros

  template <class... Pieces>
  void operator()(int value, int bias, Pieces... pieces) const {
    int stored = value - bias;
    ((block[pieces.byte] |=
      static_cast<uint8_t>((stored & ((1 << pieces.width) - 1)) << pieces.shift),
      stored >>= pieces.width),
     ...);
  }
  void Word(uint16_t value, int byte) const { std::memcpy(block + byte, &value, sizeof value); }
};

// [d] [m] [high bits] nibbles, of which the low halves come first: Q4_0, Q4_1, Q5_0, Q5_1, IQ4_NL,
// MXFP4.
template <class Io, class Parts>
void NibbleLayout(const BlockFormat& format, const Io& io, Parts& parts) {
  const bool exponent = format.scale == BlockScale::kE8M0;
  int at = exponent ? 1 : 2;
  if (exponent) {
    io(parts.d, 0, Bits{0, 0, 8});
  } else {
    io.Word(parts.d, 0);
  }
  if (format.minimum) {
    io.Word(parts.m, at);
    at += 2;
  }
  if (format.bits == 5) {
    for (int i = 0; i < 16; ++i) {
      io(parts.codes[i], 0, Bits{at + 4 + i, 0, 4}, Bits{at + i / 8, i % 8, 1});
      io(parts.codes[i + 16], 0, Bits{at + 4 + i, 4, 4}, Bits{at + 2 + i / 8, i % 8, 1});
    }
    return;
  }
  for (int i = 0; i < 16; ++i) {
    io(parts.codes[i], 0, Bits{at + i, 0, 4});
    io(parts.codes[i + 16], 0, Bits{at + i, 4, 4});
  }
}

template <class Io, class Parts>
void Q8Layout(const Io& io, Parts& parts) {
  io.Word(parts.d, 0);
  for (int i = 0; i < 32; ++i) io(parts.codes[i], 128, Bits{2 + i, 0, 8});
}

template <class Io, class Parts>
void I8Layout(const Io& io, Parts& parts) {
  for (int i = 0; i < 32; ++i) io(parts.codes[i], 128, Bits{i, 0, 8});
}

template <class Io, class Parts>
void Q2KLayout(const Io& io, Parts& parts) {
  for (int i = 0; i < 16; ++i) {
    io(parts.scales[i], 0, Bits{i, 0, 4});
    io(parts.mins[i], 0, Bits{i, 4, 4});
  }
  for (int line = 0; line < 8; ++line) {
    for (int i = 0; i < 32; ++i) {
      io(parts.codes[line * 32 + i], 0, Bits{16 + line / 4 * 32 + i, line % 4 * 2, 2});
    }
  }
  io.Word(parts.d, 80);
  io.Word(parts.m, 82);
}

template <class Io, class Parts>
void Q3KLayout(const Io& io, Parts& parts) {
  for (int line = 0; line < 8; ++line) {
    for (int i = 0; i < 32; ++i) {
      io(parts.codes[line * 32 + i], 0, Bits{32 + line / 4 * 32 + i, line % 4 * 2, 2},
         Bits{i, line, 1});
    }
  }
  for (int i = 0; i < 16; ++i) {
    io(parts.scales[i], -32, Bits{96 + i % 8, i / 8 * 4, 4}, Bits{104 + i % 4, i / 4 * 2, 2});
  }
  io.Word(parts.d, 108);
}

// Q4_K and Q5_K. Twelve bytes hold eight scales and eight minimums of 6 bits.
template <class Io, class Parts>
void Q4KLayout(bool five_bits, const Io& io, Parts& parts) {
  io.Word(parts.d, 0);
  io.Word(parts.m, 2);
  for (int i = 0; i < 4; ++i) {
    io(parts.scales[i], 0, Bits{4 + i, 0, 6});
    io(parts.mins[i], 0, Bits{8 + i, 0, 6});
    io(parts.scales[i + 4], 0, Bits{12 + i, 0, 4}, Bits{4 + i, 6, 2});
    io(parts.mins[i + 4], 0, Bits{12 + i, 4, 4}, Bits{8 + i, 6, 2});
  }
  for (int line = 0; line < 8; ++line) {
    for (int i = 0; i < 32; ++i) {
      const int shift = line % 2 * 4;
      if (five_bits) {
        io(parts.codes[line * 32 + i], 0, Bits{48 + line / 2 * 32 + i, shift, 4},
           Bits{16 + i, line, 1});
      } else {
        io(parts.codes[line * 32 + i], 0, Bits{16 + line / 2 * 32 + i, shift, 4});
      }
    }
  }
}

template <class Io, class Parts>
void Q6KLayout(const Io& io, Parts& parts) {
  for (int line = 0; line < 8; ++line) {
    for (int i = 0; i < 32; ++i) {
      io(parts.codes[line * 32 + i], 0,
         Bits{line / 4 * 64 + line % 2 * 32 + i, line % 4 / 2 * 4, 4},
         Bits{128 + line / 4 * 32 + i, line % 4 * 2, 2});
    }
  }
  for (int i = 0; i < 16; ++i) io(parts.scales[i], 0, Bits{192 + i, 0, 8});
  io.Word(parts.d, 208);
}

// Scales of 6 bits, whose upper two lie apart; nibbles as in blocks of 32.
template <class Io, class Parts>
void Iq4XsLayout(const Io& io, Parts& parts) {
  io.Word(parts.d, 0);
  for (int i = 0; i < 8; ++i) {
    io(parts.scales[i], -32, Bits{4 + i / 2, i % 2 * 4, 4}, Bits{2 + i / 4, i % 4 * 2, 2});
    for (int j = 0; j < 16; ++j) {
      io(parts.codes[i * 32 + j], 0, Bits{8 + i * 16 + j, 0, 4});
      io(parts.codes[i * 32 + 16 + j], 0, Bits{8 + i * 16 + j, 4, 4});
    }
  }
}

template <class Io, class Parts>
void Nvfp4Layout(const Io& io, Parts& parts) {
  for (int i = 0; i < 4; ++i) {
    io(parts.scales[i], 0, Bits{i, 0, 7});
    for (int j = 0; j < 8; ++j) {
      io(parts.codes[i * 16 + j], 0, Bits{4 + i * 8 + j, 0, 4});
      io(parts.codes[i * 16 + 8 + j], 0, Bits{4 + i * 8 + j, 4, 4});
    }
  }
}

template <class Io, class Parts>
void Tq2Layout(const Io& io, Parts& parts) {
  for (int line = 0; line < 8; ++line) {
    for (int i = 0; i < 32; ++i) {
      io(parts.codes[line * 32 + i], 0, Bits{line / 4 * 32 + i, line % 4 * 2, 2});
    }
  }
  io.Word(parts.d, 64);
}

// Bytes of five digits to the base 3, the last ones of four, as fractions of 256: the digit in
// front of the point is that of three times the fraction.
void TakeApartTq1(const uint8_t* block, BlockParts* parts) {
  uint8_t* codes = parts->codes;
  const auto digits = [&](int from, int bytes, int count) {
    uint8_t power = 1;
    for (int digit = 0; digit < count; ++digit, power = static_cast<uint8_t>(power * 3)) {
      for (int i = 0; i < bytes; ++i) {
        const auto fraction = static_cast<uint8_t>(block[from + i] * power);
        *codes++ = static_cast<uint8_t>(fraction * 3 >> 8);
      }
    }
  };
  digits(0, 32, 5);
  digits(32, 16, 5);
  digits(48, 4, 4);
  std::memcpy(&parts->d, block + 52, sizeof parts->d);
}

template <class Io, class Parts>
void VisitBlock(const BlockFormat& format, const Io& io, Parts& parts) {
  switch (format.dtype) {
    case DType::kQ8_0:
      return Q8Layout(io, parts);
    case DType::kQ2_K:
      return Q2KLayout(io, parts);
    case DType::kQ3_K:
      return Q3KLayout(io, parts);
    case DType::kQ4_K:
      return Q4KLayout(false, io, parts);
    case DType::kQ5_K:
      return Q4KLayout(true, io, parts);
    case DType::kQ6_K:
      return Q6KLayout(io, parts);
    case DType::kIQ4_XS:
      return Iq4XsLayout(io, parts);
    case DType::kTQ2_0:
      return Tq2Layout(io, parts);
    case DType::kNVFP4:
      return Nvfp4Layout(io, parts);
    case DType::kI8:
      return I8Layout(io, parts);
    default:
      return NibbleLayout(format, io, parts);
  }
}

}  // namespace

const BlockFormat* FindBlockFormat(DType dtype) {
  for (const BlockFormat& format : kBlockFormats) {
    if (format.dtype == dtype) return &format;
  }
  for (const BlockFormat& format : kCodebookFormats) {
    if (format.dtype == dtype) return &format;
  }
  return nullptr;
}

std::span<const uint8_t, 16> CodeValues(DType dtype) {
  if (dtype == DType::kIQ4_NL || dtype == DType::kIQ4_XS) return kIq4NlValues;
  CHECK(dtype == DType::kMXFP4 || dtype == DType::kNVFP4, Name(dtype), " has no table");
  return kMxfp4Values;
}

// Told that block and parts are apart, the compiler works on 16 bytes at once.
void TakeApart(const BlockFormat& format, const std::byte* __restrict block,
               BlockParts* __restrict parts) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(block);
  parts->d = parts->m = 0;
  if (!format.sub_scales) {
    std::memset(parts->scales, 1, sizeof parts->scales);
    std::memset(parts->mins, 0, sizeof parts->mins);
  }
  if (format.codebook) return TakeApartCodebook(format, bytes, parts);
  if (format.dtype == DType::kTQ1_0) return TakeApartTq1(bytes, parts);
  VisitBlock(format, Reader{bytes}, *parts);
  if (format.scale != BlockScale::kE4M3) return;
  for (int8_t& scale : parts->scales) {
    if (scale == kF8Nan) scale = 0;
  }
}

void PutTogether(const BlockFormat& format, const BlockParts& __restrict parts,
                 std::byte* __restrict block) {
  CHECK(!format.codebook && format.dtype != DType::kTQ1_0, Name(format.dtype));
  std::memset(block, 0, BlockBytes(format));
  VisitBlock(format, Writer{reinterpret_cast<uint8_t*>(block)}, parts);
}

namespace {

// Where the word of d lies.
int ScalePlace(DType dtype) {
  switch (dtype) {
    case DType::kQ2_K:
      return 80;
    case DType::kQ3_K:
      return 108;
    case DType::kQ6_K:
      return 208;
    case DType::kTQ1_0:
      return 52;
    case DType::kTQ2_0:
      return 64;
    default:
      return 0;
  }
}

}  // namespace

void SetScale(const BlockFormat& format, float d, float m, std::byte* block) {
  auto* bytes = reinterpret_cast<uint8_t*>(block);
  const uint16_t words[2] = {F32ToF16(d), F32ToF16(m)};
  switch (format.scale) {
    case BlockScale::kNone:
      return;
    case BlockScale::kE8M0: {
      int exponent = 0;
      std::frexp(d, &exponent);
      bytes[0] = static_cast<uint8_t>(std::clamp(exponent + 127, 0, 254));
      return;
    }
    case BlockScale::kE4M3:
      for (int i = 0; i < format.block / format.sub; ++i) {
        const uint8_t scale = F32ToF8E4M3(2.0f * std::fabs(d)) & 0x78;
        bytes[i] = static_cast<uint8_t>(scale | (bytes[i] & 7));
      }
      return;
    case BlockScale::kF16:
      break;
  }
  if (format.dtype == DType::kIQ1_M) {  // the upper halves of four words
    for (int i = 0; i < 4; ++i) {
      uint8_t& high = bytes[49 + 2 * i];
      high = static_cast<uint8_t>((high & 15) | (words[0] >> 4 * i & 15) << 4);
    }
    return;
  }
  std::memcpy(bytes + ScalePlace(format.dtype), words, format.minimum ? 4 : 2);
}

float ScaleOf(const BlockFormat& format, const BlockParts& parts, int i) {
  switch (format.scale) {
    case BlockScale::kE8M0:
      return E8M0HalfToF32(static_cast<uint8_t>(parts.d));
    case BlockScale::kE4M3:
      return 0.5f * F8E4M3ToF32(static_cast<uint8_t>(parts.scales[i]));
    case BlockScale::kNone:
      return 1.0f;
    case BlockScale::kF16:
      break;
  }
  const float scale = F16ToF32(parts.d) * static_cast<float>(parts.scales[i]);
  return format.scale_shift == 0 ? scale : scale / static_cast<float>(1 << format.scale_shift);
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
