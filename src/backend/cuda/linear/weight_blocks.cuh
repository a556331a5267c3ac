// Weights in block formats as the linear kernels take them: the codes are exact in bf16, x is bf16
// or, in F32, the sum of three bf16 terms, so that a sub-block's products are exact and their sum
// is rounded as F32 is. Scale and minimum come in after that, one fused multiply-add each, as
// ops/linear.h has them, but for x, which is not rounded to int8.
#pragma once

#include "backend/cuda/linear/params.h"
#include "backend/cuda/linear/weight_plain.cuh"
#include "backend/cuda/simt/dequantize.cuh"
#include "backend/cuda/simt/mma.cuh"

namespace sluice::cuda {

// Four bytes, each less an offset, as two pairs of bf16.
template <int kBits, int kOffset>
__device__ __forceinline__ void BytesToBf16(uint32_t bytes, uint32_t* pairs) {
  if constexpr (kBits < 8) {
    // 0x4300 + n is 128 + n.
    const uint32_t low = __byte_perm(bytes, 0x43434343u, 0x4140);
    const uint32_t high = __byte_perm(bytes, 0x43434343u, 0x4342);
    const __nv_bfloat162 offset = __float2bfloat162_rn(static_cast<float>(128 + kOffset));
    const __nv_bfloat162 a = __hsub2(*reinterpret_cast<const __nv_bfloat162*>(&low), offset);
    const __nv_bfloat162 b = __hsub2(*reinterpret_cast<const __nv_bfloat162*>(&high), offset);
    pairs[0] = *reinterpret_cast<const uint32_t*>(&a);
    pairs[1] = *reinterpret_cast<const uint32_t*>(&b);
  } else {
    // 0x4b000000 + n is 2^23 + n; a number of 8 bits is exact in the upper half of a float.
    constexpr float kZero = 8388608.0f + static_cast<float>(kOffset);
    float v[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      v[i] = __fsub_rn(__uint_as_float(__byte_perm(bytes, 0x4b000000u, 0x7440 + i)), kZero);
    }
    pairs[0] = Upper(v[0], v[1]);
    pairs[1] = Upper(v[2], v[3]);
  }
}

// Element: float, or uint16_t for the bits of bf16.
template <DType kWeight, class Element>
struct Blocks {
  static constexpr DType kFormat = kWeight;
  using Format = Block<kWeight>;
  using X = Element;
  static constexpr bool kWhole = sizeof(X) == 4;
  static constexpr int kTerms = kWhole ? 3 : 1;         // of x
  static constexpr int kPiece = 32 * Format::kWindows;  // elements: a block
  static constexpr int kUnit = LinearUnitOf(kWeight);
  static constexpr int kPieces = kUnit / kPiece;
  static constexpr int kPitch =
      LinearPitch(kWeight, kWhole ? LinearArithmetic::kExact : LinearArithmetic::kBf16);
  static constexpr int kSubs = 32 / Format::kSub;  // sub-blocks of a window
  struct Raw {
    typename Format::Raw row[2];
  };

  static_assert(Format::kBytes == LinearBlockBytes(kWeight));

  static __device__ __forceinline__ Raw Load(const uint8_t* const (&rows)[2], int piece, int t,
                                             int) {
    return LoadFrom<InGlobal>(rows, piece, t);
  }
  template <class From>
  static __device__ __forceinline__ Raw LoadFrom(const uint8_t* const (&rows)[2], int piece,
                                                 int t) {
    const int64_t at = static_cast<int64_t>(piece) * Format::kBytes;
    return {{Format::template Load<From>(rows[0] + at, t),
             Format::template Load<From>(rows[1] + at, t)}};
  }

  // What of a window of two rows goes into products.
  struct Window {
    uint32_t a[2][4];
    float scale[2][2], minimum[2][2];  // of a row's sub-blocks
  };
  static __device__ __forceinline__ Window Unpack(const Raw& raw, int w, int t) {
    Window window;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      uint32_t codes[2];
      Format::Codes(raw.row[r], w, t, codes);
#pragma unroll
      for (int s = 0; s < 2; ++s) {
        uint32_t pairs[2];
        BytesToBf16<Format::kBits, Format::kOffset>(codes[s], pairs);
        window.a[s][r] = pairs[0];
        window.a[s][2 + r] = pairs[1];
      }
      Format::Scales(raw.row[r], w, window.scale[r], window.minimum[r]);
    }
    return window;
  }

  // Four elements of x.
  template <class Source>
  static __device__ __forceinline__ void TermsOf(const Source& x, int j, int at,
                                                 uint32_t (&terms)[kTerms][2]) {
    if constexpr (kWhole) {
      const uint4 four = x(j, at);
      Split(float4{__uint_as_float(four.x), __uint_as_float(four.y), __uint_as_float(four.z),
                   __uint_as_float(four.w)},
            terms);
    } else {
      const uint2 four = x.Four(j, at);
      terms[0][0] = four.x;
      terms[0][1] = four.y;
    }
  }

  template <int kRows, int kTiles, class Source>
  static __device__ __forceinline__ void Multiply(const Raw (&raw)[kRows], int piece, int t,
                                                  const Source& x, float (&acc)[kRows][kTiles][4]) {
    const uint32_t ones[4] = {0x3f803f80u, 0x3f803f80u, 0x3f803f80u, 0x3f803f80u};
#pragma unroll
    for (int w = 0; w < Format::kWindows; ++w) {
      Window window[kRows];
#pragma unroll
      for (int i = 0; i < kRows; ++i) window[i] = Unpack(raw[i], w, t);
#pragma unroll
      for (int j = 0; j < kTiles; ++j) {
        uint32_t b[2][kTerms][2];
#pragma unroll
        for (int s = 0; s < 2; ++s) TermsOf(x, j, piece * kPiece + 32 * w + 16 * s + 4 * t, b[s]);
#pragma unroll
        for (int sub = 0; sub < kSubs; ++sub) {
          const int first = kSubs == 2 ? sub : 0, last = kSubs == 2 ? sub : 1;
          float x_sum[4] = {};
          if constexpr (Format::kMinimum) {
#pragma unroll
            for (int s = first; s <= last; ++s) {
#pragma unroll
              for (int p = kTerms - 1; p >= 0; --p)
                MultiplyAdd<Bf16>(x_sum, ones, b[s][p][0], b[s][p][1]);
            }
          }
#pragma unroll
          for (int i = 0; i < kRows; ++i) {
            float sum[4] = {};
#pragma unroll
            for (int s = first; s <= last; ++s) {
#pragma unroll
              for (int p = kTerms - 1; p >= 0; --p)
                MultiplyAdd<Bf16>(sum, window[i].a[s], b[s][p][0], b[s][p][1]);
            }
#pragma unroll
            for (int c = 0; c < 4; ++c) {
              float& to = acc[i][j][c];
              to = __fmaf_rn(window[i].scale[c / 2][sub], sum[c], to);
              if constexpr (Format::kMinimum)
                to = __fmaf_rn(window[i].minimum[c / 2][sub], x_sum[c], to);
            }
          }
        }
      }
    }
  }
};

}  // namespace sluice::cuda
