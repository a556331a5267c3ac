#include "ops/formats/format.h"

#include <bit>
#include <cstring>

#include "base/check.h"

namespace sluice::ops {

namespace {

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
  int at = format.power_of_two_scale ? 1 : 2;
  if (format.power_of_two_scale) {
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
    default:
      return NibbleLayout(format, io, parts);
  }
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

// Told that block and parts are apart, the compiler works on 16 bytes at once.
void TakeApart(const BlockFormat& format, const std::byte* __restrict block,
               BlockParts* __restrict parts) {
  parts->m = 0;
  if (!format.sub_scales) {
    std::memset(parts->scales, 1, sizeof parts->scales);
    std::memset(parts->mins, 0, sizeof parts->mins);
  }
  VisitBlock(format, Reader{reinterpret_cast<const uint8_t*>(block)}, *parts);
}

void PutTogether(const BlockFormat& format, const BlockParts& __restrict parts,
                 std::byte* __restrict block) {
  std::memset(block, 0, static_cast<size_t>(Info(format.dtype).bytes));
  VisitBlock(format, Writer{reinterpret_cast<uint8_t*>(block)}, parts);
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
