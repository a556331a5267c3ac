// Weights in plain formats as the linear kernels take them (kVector: rows begin at multiples of 16
// bytes and end with a unit). A piece is 64 bytes of each row, 16 of them per lane; lane t's
// elements are the 16 / size ones from (16 / size) * t on, four of them per product of 16. x is
// read in the same order, so the sum over k is the same set of products.
//
//   Chained   factors of 16 bits, exact; sums stay in the matrix unit over a whole slice
//   Exact     x in F32 as three bf16 terms, whose sum is x; W as one, two or three such terms;
//             every 16 products are added to the sum in F32
#pragma once

#include <cuda_fp8.h>

#include "backend/cuda/linear/params.h"
#include "backend/cuda/simt/mma.cuh"

namespace sluice::cuda {

// Upper halves of two floats as a pair of bf16: the terms of a split by truncation.
__device__ __forceinline__ uint32_t Upper(float low, float high) {
  return __byte_perm(__float_as_uint(low), __float_as_uint(high), 0x7632);
}
__device__ __forceinline__ float BelowUpper(float v) {
  return __fsub_rn(v, __uint_as_float(__float_as_uint(v) & 0xffff0000u));
}

// Four floats as kTerms pairs of registers, the largest first. Infinity becomes NaN.
template <int kTerms>
__device__ __forceinline__ void Split(float4 v, uint32_t (&terms)[kTerms][2]) {
#pragma unroll
  for (int i = 0; i < kTerms; ++i) {
    terms[i][0] = Upper(v.x, v.y);
    terms[i][1] = Upper(v.z, v.w);
    v = {BelowUpper(v.x), BelowUpper(v.y), BelowUpper(v.z), BelowUpper(v.w)};
  }
}

__device__ __forceinline__ uint32_t Word(const uint4& v, int i) {
  return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
}

__device__ __forceinline__ __half2 TwoF8(uint32_t pair) {
  return __half2(__nv_cvt_fp8x2_to_halfraw2(static_cast<__nv_fp8x2_storage_t>(pair), __NV_E4M3));
}

__device__ __forceinline__ void FourF8(F16, uint32_t four, uint32_t* pairs) {
  const __half2 low = TwoF8(four & 0xffffu), high = TwoF8(four >> 16);
  pairs[0] = *reinterpret_cast<const uint32_t*>(&low);
  pairs[1] = *reinterpret_cast<const uint32_t*>(&high);
}
__device__ __forceinline__ void FourF8(Bf16, uint32_t four, uint32_t* pairs) {
  const float2 low = __half22float2(TwoF8(four & 0xffffu)),
               high = __half22float2(TwoF8(four >> 16));
  pairs[0] = Upper(low.x, low.y);
  pairs[1] = Upper(high.x, high.y);
}

template <DType kWeight>
constexpr int kElementBytes = kWeight == DType::kF32      ? 4
                              : kWeight == DType::kF8E4M3 ? 1
                                                          : 2;

// One lane's part of two rows (g and g + 8), 16 bytes each.
struct PlainRaw {
  uint4 row[2];
};

template <DType kWeight, bool kVector>
struct PlainLoad {
  static constexpr int kSize = kElementBytes<kWeight>;
  static constexpr int kPiece = 64 / kSize;  // elements
  static constexpr int kUnit = kLinearUnit;
  static constexpr int kPieces = kUnit / kPiece;  // of a unit
  static constexpr int kPerLane = 16 / kSize;
  using Raw = PlainRaw;

  // Elements [piece * kPiece + kPerLane * t, + kPerLane) of a row; zeros behind k.
  static __device__ __forceinline__ uint4 LoadRow(const uint8_t* row, int piece, int t, int k) {
    if constexpr (kVector) return LoadOnce(row + piece * 64 + 16 * t);
    uint32_t words[4] = {};
    const int first = piece * kPiece + kPerLane * t;
    for (int i = 0; i < kPerLane && first + i < k; ++i) {
      uint32_t bits = 0;
      if constexpr (kSize == 4) bits = reinterpret_cast<const uint32_t*>(row)[first + i];
      if constexpr (kSize == 2) bits = reinterpret_cast<const uint16_t*>(row)[first + i];
      if constexpr (kSize == 1) bits = row[first + i];
      words[i * kSize / 4] |= bits << (i * kSize % 4 * 8);
    }
    return {words[0], words[1], words[2], words[3]};
  }
  static __device__ __forceinline__ Raw Load(const uint8_t* const (&rows)[2], int piece, int t,
                                             int k) {
    return {{LoadRow(rows[0], piece, t, k), LoadRow(rows[1], piece, t, k)}};
  }
};

// W and x in factors of kind Factor.
template <DType kWeight, class Factor, bool kVector>
struct Chained : PlainLoad<kWeight, kVector> {
  using Base = PlainLoad<kWeight, kVector>;
  using X = uint16_t;
  static constexpr int kPitch = LinearPitch(kWeight, LinearArithmetic::kBf16);

  // `x(j, offset)` reads 16 bytes of the j-th tile's row g, from element `offset` on.
  template <int kRows, int kTiles, class Source>
  static __device__ __forceinline__ void Multiply(const PlainRaw (&raw)[kRows], int piece, int t,
                                                  const Source& x, float (&acc)[kRows][kTiles][4]) {
#pragma unroll
    for (int part = 0; part < Base::kPerLane / 8; ++part) {
      uint32_t a[kRows][2][4];
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          uint32_t words[4];
          if constexpr (Base::kSize == 2) {
#pragma unroll
            for (int q = 0; q < 4; ++q) words[q] = Word(raw[i].row[r], q);
          } else {
            FourF8(Factor(), Word(raw[i].row[r], 2 * part), words);
            FourF8(Factor(), Word(raw[i].row[r], 2 * part + 1), words + 2);
          }
#pragma unroll
          for (int q = 0; q < 4; ++q) a[i][q / 2][q % 2 * 2 + r] = words[q];
        }
      }
#pragma unroll
      for (int j = 0; j < kTiles; ++j) {
        const uint4 b = x(j, piece * Base::kPiece + Base::kPerLane * t + 8 * part);
#pragma unroll
        for (int i = 0; i < kRows; ++i) {
          MultiplyAdd<Factor>(acc[i][j], a[i][0], b.x, b.y);
          MultiplyAdd<Factor>(acc[i][j], a[i][1], b.z, b.w);
        }
      }
    }
  }
};

template <DType kWeight, bool kVector>
struct Exact : PlainLoad<kWeight, kVector> {
  using Base = PlainLoad<kWeight, kVector>;
  using X = float;
  static constexpr int kPitch = LinearPitch(kWeight, LinearArithmetic::kExact);
  static constexpr int kTerms = kWeight == DType::kF32 ? 3 : kWeight == DType::kF16 ? 2 : 1;

  // The four elements of step `s` as terms.
  static __device__ __forceinline__ void Terms(const uint4& raw, int s,
                                               uint32_t (&terms)[kTerms][2]) {
    if constexpr (kWeight == DType::kF32) {
      Split(float4{__uint_as_float(raw.x), __uint_as_float(raw.y), __uint_as_float(raw.z),
                   __uint_as_float(raw.w)},
            terms);
    } else if constexpr (kWeight == DType::kF16) {
      const uint32_t words[2] = {Word(raw, 2 * s), Word(raw, 2 * s + 1)};
      const float2 low = __half22float2(*reinterpret_cast<const __half2*>(&words[0]));
      const float2 high = __half22float2(*reinterpret_cast<const __half2*>(&words[1]));
      Split(float4{low.x, low.y, high.x, high.y}, terms);
    } else if constexpr (kWeight == DType::kBF16) {
      terms[0][0] = Word(raw, 2 * s);
      terms[0][1] = Word(raw, 2 * s + 1);
    } else {
      FourF8(Bf16(), Word(raw, s), terms[0]);
    }
  }

  template <int kRows, int kTiles, class Source>
  static __device__ __forceinline__ void Multiply(const PlainRaw (&raw)[kRows], int piece, int t,
                                                  const Source& x, float (&acc)[kRows][kTiles][4]) {
#pragma unroll
    for (int s = 0; s < Base::kPerLane / 4; ++s) {
      uint32_t a[kRows][kTerms][4];
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          uint32_t terms[kTerms][2];
          Terms(raw[i].row[r], s, terms);
#pragma unroll
          for (int q = 0; q < kTerms; ++q) {
            a[i][q][r] = terms[q][0];
            a[i][q][2 + r] = terms[q][1];
          }
        }
      }
#pragma unroll
      for (int j = 0; j < kTiles; ++j) {
        const uint4 four = x(j, piece * Base::kPiece + Base::kPerLane * t + 4 * s);
        uint32_t b[3][2];
        Split(float4{__uint_as_float(four.x), __uint_as_float(four.y), __uint_as_float(four.z),
                     __uint_as_float(four.w)},
              b);
#pragma unroll
        for (int i = 0; i < kRows; ++i) {
          float sum[4] = {};
          // Products of terms below 2^-24 of the whole are left out; small ones come first.
#pragma unroll
          for (int order = 2; order >= 0; --order) {
#pragma unroll
            for (int q = order; q >= 0; --q) {
              if (q < kTerms) MultiplyAdd<Bf16>(sum, a[i][q], b[order - q][0], b[order - q][1]);
            }
          }
#pragma unroll
          for (int c = 0; c < 4; ++c) acc[i][j][c] = __fadd_rn(acc[i][j][c], sum[c]);
        }
      }
    }
  }
};

}  // namespace sluice::cuda
