// GGUF's blocks as four lanes of a quad read them together: lane t takes of each 16 elements the
// four from 4t on. Device code only; bit layouts as in ops/formats/format.cc.
//
// A Block<kDType> has
//   kBytes, kWindows (of 32 elements), kSub, kOffset, kMinimum, kBits as ops::BlockFormat
//   struct Raw        what a lane keeps of one block
//   Load<From>(block, t)  reads a lane's share; blocks lie at any multiple of their own alignment
//   Codes(raw, w, c)  the values, before the offset, of window w: c[0] holds four of its first 16
//                     elements as bytes, c[1] four of its last 16
//   Scales(raw, w, scale, minimum)  of the one or two sub-blocks of window w
#pragma once

#include <cuda_fp16.h>
#include <stdint.h>

#include "base/dtype.h"

namespace sluice::cuda {

// Where blocks lie.
struct InGlobal {
  template <class T>
  __device__ static __forceinline__ T At(const uint8_t* p) {
    return __ldg(reinterpret_cast<const T*>(p));
  }
};
struct InShared {
  template <class T>
  __device__ static __forceinline__ T At(const uint8_t* p) {
    return *reinterpret_cast<const T*>(p);
  }
};

template <class From>
struct Reads {
  __device__ static __forceinline__ uint32_t Load8(const uint8_t* p) {
    return From::template At<uint8_t>(p);
  }
  __device__ static __forceinline__ uint32_t Load16(const uint8_t* p) {
    return From::template At<uint16_t>(p);
  }
  __device__ static __forceinline__ uint32_t Load32(const uint8_t* p) {
    return From::template At<uint32_t>(p);
  }
  // Four bytes at a multiple of two, or of one.
  __device__ static __forceinline__ uint32_t Load32By16(const uint8_t* p) {
    return Load16(p) | Load16(p + 2) << 16;
  }
  __device__ static __forceinline__ uint32_t Load32By8(const uint8_t* p) {
    return Load8(p) | Load8(p + 1) << 8 | Load8(p + 2) << 16 | Load8(p + 3) << 24;
  }
};

__device__ __forceinline__ float HalfToFloat(uint32_t bits) {
  return __half2float(__ushort_as_half(static_cast<unsigned short>(bits)));
}
// Four bits, each into bit 0 of a byte of its own.
__device__ __forceinline__ uint32_t SpreadBits(uint32_t bits) {
  return ((bits & 15u) * 0x00204081u) & 0x01010101u;
}
__device__ __forceinline__ uint32_t ByteOf(const uint32_t (&words)[3], int i) {
  return words[i / 4] >> (i % 4 * 8) & 255u;
}

template <DType kFormat>
struct Block;

template <int kBytes_, int kOffset_, bool kMinimum_, int kBits_>
struct SmallBlock {
  static constexpr int kBytes = kBytes_, kWindows = 1, kSub = 32, kOffset = kOffset_;
  static constexpr bool kMinimum = kMinimum_;
  static constexpr int kBits = kBits_;
};

// Nibbles: the low ones are the first 16 elements.
__device__ __forceinline__ void Nibbles(uint32_t word, uint32_t (&c)[2]) {
  c[0] = word & 0x0f0f0f0fu;
  c[1] = word >> 4 & 0x0f0f0f0fu;
}

template <>
struct Block<DType::kQ4_0> : SmallBlock<18, 8, false, 4> {
  struct Raw {
    uint32_t d, codes;
  };
  template <class From = InGlobal>
  __device__ static Raw Load(const uint8_t* b, int t) {
    using R = Reads<From>;
    return {R::Load16(b), R::Load32By16(b + 2 + 4 * t)};
  }
  __device__ static void Codes(const Raw& r, int, int, uint32_t (&c)[2]) { Nibbles(r.codes, c); }
  __device__ static void Scales(const Raw& r, int, float (&scale)[2], float (&)[2]) {
    scale[0] = HalfToFloat(r.d);
  }
};

template <>
struct Block<DType::kQ4_1> : SmallBlock<20, 0, true, 4> {
  struct Raw {
    uint32_t dm, codes;
  };
  template <class From = InGlobal>
  __device__ static Raw Load(const uint8_t* b, int t) {
    using R = Reads<From>;
    return {R::Load32(b), R::Load32(b + 4 + 4 * t)};
  }
  __device__ static void Codes(const Raw& r, int, int, uint32_t (&c)[2]) { Nibbles(r.codes, c); }
  __device__ static void Scales(const Raw& r, int, float (&scale)[2], float (&minimum)[2]) {
    scale[0] = HalfToFloat(r.dm);
    minimum[0] = HalfToFloat(r.dm >> 16);
  }
};

template <>
struct Block<DType::kQ5_0> : SmallBlock<22, 16, false, 5> {
  struct Raw {
    uint32_t d, high, codes;
  };
  template <class From = InGlobal>
  __device__ static Raw Load(const uint8_t* b, int t) {
    using R = Reads<From>;
    return {R::Load16(b), R::Load32By16(b + 2), R::Load32By16(b + 6 + 4 * t)};
  }
  __device__ static void Codes(const Raw& r, int, int t, uint32_t (&c)[2]) {
    Nibbles(r.codes, c);
    c[0] |= SpreadBits(r.high >> (4 * t)) << 4;
    c[1] |= SpreadBits(r.high >> (16 + 4 * t)) << 4;
  }
  __device__ static void Scales(const Raw& r, int, float (&scale)[2], float (&)[2]) {
    scale[0] = HalfToFloat(r.d);
  }
};

template <>
struct Block<DType::kQ5_1> : SmallBlock<24, 0, true, 5> {
  struct Raw {
    uint32_t dm, high, codes;
  };
  template <class From = InGlobal>
  __device__ static Raw Load(const uint8_t* b, int t) {
    using R = Reads<From>;
    return {R::Load32(b), R::Load32(b + 4), R::Load32(b + 8 + 4 * t)};
  }
  __device__ static void Codes(const Raw& r, int, int t, uint32_t (&c)[2]) {
    Nibbles(r.codes, c);
    c[0] |= SpreadBits(r.high >> (4 * t)) << 4;
    c[1] |= SpreadBits(r.high >> (16 + 4 * t)) << 4;
  }
  __device__ static void Scales(const Raw& r, int, float (&scale)[2], float (&minimum)[2]) {
    scale[0] = HalfToFloat(r.dm);
    minimum[0] = HalfToFloat(r.dm >> 16);
  }
};

template <>
struct Block<DType::kQ8_0> : SmallBlock<34, 128, false, 8> {
  struct Raw {
    uint32_t d, codes[2];
  };
  template <class From = InGlobal>
  __device__ static Raw Load(const uint8_t* b, int t) {
    using R = Reads<From>;
    return {R::Load16(b), {R::Load32By16(b + 2 + 4 * t), R::Load32By16(b + 18 + 4 * t)}};
  }
  __device__ static void Codes(const Raw& r, int, int, uint32_t (&c)[2]) {
    c[0] = r.codes[0] ^ 0x80808080u;
    c[1] = r.codes[1] ^ 0x80808080u;
  }
  __device__ static void Scales(const Raw& r, int, float (&scale)[2], float (&)[2]) {
    scale[0] = HalfToFloat(r.d);
  }
};

// Sixteen bytes of a table, looked up by four nibbles in the bytes of `index`. A permutation picks
// from eight bytes, so both halves are looked up and each byte's fourth bit chooses.
__device__ __forceinline__ uint32_t LookUp(uint32_t index, uint32_t t0, uint32_t t1, uint32_t t2,
                                           uint32_t t3) {
  const uint32_t low = index & 0x07070707u;
  const uint32_t selector = __byte_perm(low | low >> 4, 0, 0x4420);
  const uint32_t first = __byte_perm(t0, t1, selector), second = __byte_perm(t2, t3, selector);
  const uint32_t mask = (index >> 3 & 0x01010101u) * 255u;
  return (first & ~mask) | (second & mask);
}

template <>
struct Block<DType::kIQ4_NL> : SmallBlock<18, 128, false, 8> {
  struct Raw {
    uint32_t d, codes;
  };
  template <class From = InGlobal>
  __device__ static Raw Load(const uint8_t* b, int t) {
    using R = Reads<From>;
    return {R::Load16(b), R::Load32By16(b + 2 + 4 * t)};
  }
  __device__ static void Codes(const Raw& r, int, int, uint32_t (&c)[2]) {
    Nibbles(r.codes, c);
    // 1 24 45 63, 79 93 106 118, 129 141 153 166, 181 197 217 241
    for (uint32_t& v : c) v = LookUp(v, 0x3f2d1801u, 0x766a5d4fu, 0xa6998d81u, 0xf1d9c5b5u);
  }
  __device__ static void Scales(const Raw& r, int, float (&scale)[2], float (&)[2]) {
    scale[0] = HalfToFloat(r.d);
  }
};

template <>
struct Block<DType::kMXFP4> : SmallBlock<17, 12, false, 5> {
  struct Raw {
    uint32_t d, codes;
  };
  template <class From = InGlobal>
  __device__ static Raw Load(const uint8_t* b, int t) {
    using R = Reads<From>;
    return {R::Load8(b), R::Load32By8(b + 1 + 4 * t)};
  }
  __device__ static void Codes(const Raw& r, int, int, uint32_t (&c)[2]) {
    Nibbles(r.codes, c);
    // 12 13 14 15, 16 18 20 24, 12 11 10 9, 8 6 4 0
    for (uint32_t& v : c) v = LookUp(v, 0x0f0e0d0cu, 0x18141210u, 0x090a0b0cu, 0x00040608u);
  }
  __device__ static void Scales(const Raw& r, int, float (&scale)[2], float (&)[2]) {
    scale[0] = __uint_as_float(r.d < 2 ? 0x00200000u << r.d : (r.d - 1) << 23);
  }
};

template <int kBytes_, int kSub_, int kOffset_, bool kMinimum_, int kBits_>
struct SuperBlock {
  static constexpr int kBytes = kBytes_, kWindows = 8, kSub = kSub_, kOffset = kOffset_;
  static constexpr bool kMinimum = kMinimum_;
  static constexpr int kBits = kBits_;
};

template <>
struct Block<DType::kQ2_K> : SuperBlock<84, 16, 0, true, 2> {
  struct Raw {
    uint32_t dm, scales[4], codes[2][2];  // of each half of the block, each 16 bytes
  };
  template <class From = InGlobal>
  __device__ static Raw Load(const uint8_t* b, int t) {
    using R = Reads<From>;
    Raw r;
    r.dm = R::Load32(b + 80);
#pragma unroll
    for (int i = 0; i < 4; ++i) r.scales[i] = R::Load32(b + 4 * i);
#pragma unroll
    for (int i = 0; i < 4; ++i) r.codes[i / 2][i % 2] = R::Load32(b + 16 + 16 * i + 4 * t);
    return r;
  }
  __device__ static void Codes(const Raw& r, int w, int, uint32_t (&c)[2]) {
#pragma unroll
    for (int s = 0; s < 2; ++s) c[s] = r.codes[w / 4][s] >> (w % 4 * 2) & 0x03030303u;
  }
  __device__ static void Scales(const Raw& r, int w, float (&scale)[2], float (&minimum)[2]) {
    const float d = HalfToFloat(r.dm), m = HalfToFloat(r.dm >> 16);
#pragma unroll
    for (int s = 0; s < 2; ++s) {
      const uint32_t both = r.scales[w / 2] >> ((2 * w + s) % 4 * 8);
      scale[s] = d * static_cast<float>(both & 15u);
      minimum[s] = -m * static_cast<float>(both >> 4 & 15u);
    }
  }
};

template <>
struct Block<DType::kQ3_K> : SuperBlock<110, 16, 4, false, 3> {
  struct Raw {
    uint32_t d, high[2], codes[2][2], scales[3];
  };
  template <class From = InGlobal>
  __device__ static Raw Load(const uint8_t* b, int t) {
    using R = Reads<From>;
    Raw r;
    r.d = R::Load16(b + 108);
#pragma unroll
    for (int s = 0; s < 2; ++s) r.high[s] = R::Load32By16(b + 16 * s + 4 * t);
#pragma unroll
    for (int i = 0; i < 4; ++i) r.codes[i / 2][i % 2] = R::Load32By16(b + 32 + 16 * i + 4 * t);
#pragma unroll
    for (int i = 0; i < 3; ++i) r.scales[i] = R::Load32By16(b + 96 + 4 * i);
    return r;
  }
  __device__ static void Codes(const Raw& r, int w, int, uint32_t (&c)[2]) {
#pragma unroll
    for (int s = 0; s < 2; ++s) {
      c[s] = (r.codes[w / 4][s] >> (w % 4 * 2) & 0x03030303u) | (r.high[s] >> w & 0x01010101u) << 2;
    }
  }
  __device__ static void Scales(const Raw& r, int w, float (&scale)[2], float (&)[2]) {
    const float d = HalfToFloat(r.d);
#pragma unroll
    for (int s = 0; s < 2; ++s) {
      const int i = 2 * w + s;
      const uint32_t low = i < 8 ? ByteOf(r.scales, i) & 15u : ByteOf(r.scales, i - 8) >> 4;
      const uint32_t top = ByteOf(r.scales, 8 + i % 4) >> (i / 4 * 2) & 3u;
      scale[s] = d * static_cast<float>(static_cast<int>(low | top << 4) - 32);
    }
  }
};

// The twelve bytes of scales and minimums of Q4_K and Q5_K.
__device__ __forceinline__ void SixBitScales(uint32_t dm, const uint32_t (&s)[3], int w,
                                             float (&scale)[2], float (&minimum)[2]) {
  uint32_t a, b;
  if (w < 4) {
    a = ByteOf(s, w) & 63u;
    b = ByteOf(s, w + 4) & 63u;
  } else {
    a = (ByteOf(s, w + 4) & 15u) | ByteOf(s, w - 4) >> 6 << 4;
    b = ByteOf(s, w + 4) >> 4 | ByteOf(s, w) >> 6 << 4;
  }
  scale[0] = HalfToFloat(dm) * static_cast<float>(a);
  minimum[0] = -HalfToFloat(dm >> 16) * static_cast<float>(b);
}

template <>
struct Block<DType::kQ4_K> : SuperBlock<144, 32, 0, true, 4> {
  struct Raw {
    uint32_t dm, scales[3], codes[4][2];  // of each 64 elements
  };
  template <class From = InGlobal>
  __device__ static Raw Load(const uint8_t* b, int t) {
    using R = Reads<From>;
    Raw r;
    const uint4 head = From::template At<uint4>(b);
    r.dm = head.x, r.scales[0] = head.y, r.scales[1] = head.z, r.scales[2] = head.w;
#pragma unroll
    for (int i = 0; i < 8; ++i) r.codes[i / 2][i % 2] = R::Load32(b + 16 + 16 * i + 4 * t);
    return r;
  }
  __device__ static void Codes(const Raw& r, int w, int, uint32_t (&c)[2]) {
#pragma unroll
    for (int s = 0; s < 2; ++s) c[s] = r.codes[w / 2][s] >> (w % 2 * 4) & 0x0f0f0f0fu;
  }
  __device__ static void Scales(const Raw& r, int w, float (&scale)[2], float (&minimum)[2]) {
    SixBitScales(r.dm, r.scales, w, scale, minimum);
  }
};

template <>
struct Block<DType::kQ5_K> : SuperBlock<176, 32, 0, true, 5> {
  struct Raw {
    uint32_t dm, scales[3], high[2], codes[4][2];
  };
  template <class From = InGlobal>
  __device__ static Raw Load(const uint8_t* b, int t) {
    using R = Reads<From>;
    Raw r;
    const uint4 head = From::template At<uint4>(b);
    r.dm = head.x, r.scales[0] = head.y, r.scales[1] = head.z, r.scales[2] = head.w;
#pragma unroll
    for (int s = 0; s < 2; ++s) r.high[s] = R::Load32(b + 16 + 16 * s + 4 * t);
#pragma unroll
    for (int i = 0; i < 8; ++i) r.codes[i / 2][i % 2] = R::Load32(b + 48 + 16 * i + 4 * t);
    return r;
  }
  __device__ static void Codes(const Raw& r, int w, int, uint32_t (&c)[2]) {
#pragma unroll
    for (int s = 0; s < 2; ++s) {
      c[s] = (r.codes[w / 2][s] >> (w % 2 * 4) & 0x0f0f0f0fu) | (r.high[s] >> w & 0x01010101u) << 4;
    }
  }
  __device__ static void Scales(const Raw& r, int w, float (&scale)[2], float (&minimum)[2]) {
    SixBitScales(r.dm, r.scales, w, scale, minimum);
  }
};

template <>
struct Block<DType::kQ6_K> : SuperBlock<210, 16, 32, false, 6> {
  struct Raw {
    uint32_t d, scales[4], low[2][2][2], high[2][2];  // half, 32 elements, 16 elements
  };
  template <class From = InGlobal>
  __device__ static Raw Load(const uint8_t* b, int t) {
    using R = Reads<From>;
    Raw r;
    r.d = R::Load16(b + 208);
#pragma unroll
    for (int i = 0; i < 4; ++i) r.scales[i] = R::Load32By16(b + 192 + 4 * i);
#pragma unroll
    for (int i = 0; i < 8; ++i) r.low[i / 4][i / 2 % 2][i % 2] = R::Load32By16(b + 16 * i + 4 * t);
#pragma unroll
    for (int i = 0; i < 4; ++i) r.high[i / 2][i % 2] = R::Load32By16(b + 128 + 16 * i + 4 * t);
    return r;
  }
  __device__ static void Codes(const Raw& r, int w, int, uint32_t (&c)[2]) {
    const int quarter = w % 4;
#pragma unroll
    for (int s = 0; s < 2; ++s) {
      c[s] = (r.low[w / 4][quarter % 2][s] >> (quarter / 2 * 4) & 0x0f0f0f0fu) |
             (r.high[w / 4][s] >> (quarter * 2) & 0x03030303u) << 4;
    }
  }
  __device__ static void Scales(const Raw& r, int w, float (&scale)[2], float (&)[2]) {
    const float d = HalfToFloat(r.d);
#pragma unroll
    for (int s = 0; s < 2; ++s) {
      const uint32_t byte = r.scales[w / 2] >> ((2 * w + s) % 4 * 8);
      scale[s] = d * static_cast<float>(static_cast<int8_t>(byte & 255u));
    }
  }
};

}  // namespace sluice::cuda
