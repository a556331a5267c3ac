// F32x16 on AVX-512: sixteen floats in one register. The same interface and the same results to
// the bit as avx2.h; kernels are templates over it. Included only by files compiled for AVX-512.
#pragma once

#include <immintrin.h>

#include "backend/cpu/simd/half.h"

namespace sluice::cpu::avx512 {

struct F32x16 {
  __m512 v;

  static F32x16 Zero() { return {_mm512_setzero_ps()}; }
  static F32x16 Set1(float x) { return {_mm512_set1_ps(x)}; }
  static F32x16 Load(const float* p) { return {_mm512_loadu_ps(p)}; }
  static F32x16 Load(const Half* p) {
    return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
  }
  static F32x16 Load(const BFloat* p) {
    const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16))};
  }
  static F32x16 Load(const Float8* p) {
    // The exponent and mantissa of an E4M3 are those of an F16 of 2^-8 of its number.
    const __m128i* from = reinterpret_cast<const __m128i*>(p);
    const __m256i words = _mm256_slli_epi16(_mm256_cvtepi8_epi16(_mm_loadu_si128(from)), 7);
    return {
        _mm512_cvtph_ps(_mm256_and_si256(words, _mm256_set1_epi16(static_cast<int16_t>(0xbfff))))};
  }
  static F32x16 Load(const Int8* p) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return {_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes))};
  }
  // The first n lanes, 0 <= n <= 16; the others are 0 and not read.
  static F32x16 LoadFirst(const float* p, int n) { return {_mm512_maskz_loadu_ps(First(n), p)}; }
  // Lanes 2i and 2i + 1 are p[i]; p has 8 floats.
  static F32x16 LoadTwice(const float* p) {
    const __m512i index = _mm512_set_epi32(7, 7, 6, 6, 5, 5, 4, 4, 3, 3, 2, 2, 1, 1, 0, 0);
    return {_mm512_permutexvar_ps(index, _mm512_castps256_ps512(_mm256_loadu_ps(p)))};
  }

  void Store(float* p) const { _mm512_storeu_ps(p, v); }
  // Rounds to nearest even.
  void Store(Half* p) const { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), ToHalf()); }
  void Store(BFloat* p) const { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), ToBFloat()); }
  // The nearest code, ties to even; what lies beyond the largest becomes the largest.
  void Store(Float8* p) const { _mm_storeu_si128(reinterpret_cast<__m128i*>(p), ToFloat8()); }
  void Store(Int8* p) const { _mm_storeu_si128(reinterpret_cast<__m128i*>(p), ToInt8()); }
  void StoreFirst(Float8* p, int n) const { _mm_mask_storeu_epi8(p, First(n), ToFloat8()); }
  void StoreFirst(Int8* p, int n) const { _mm_mask_storeu_epi8(p, First(n), ToInt8()); }
  void StoreFirst(float* p, int n) const { _mm512_mask_storeu_ps(p, First(n), v); }
  void StoreFirst(Half* p, int n) const { _mm256_mask_storeu_epi16(p, First(n), ToHalf()); }
  void StoreFirst(BFloat* p, int n) const { _mm256_mask_storeu_epi16(p, First(n), ToBFloat()); }

  friend F32x16 operator+(F32x16 a, F32x16 b) { return {_mm512_add_ps(a.v, b.v)}; }
  friend F32x16 operator-(F32x16 a, F32x16 b) { return {_mm512_sub_ps(a.v, b.v)}; }
  friend F32x16 operator*(F32x16 a, F32x16 b) { return {_mm512_mul_ps(a.v, b.v)}; }
  friend F32x16 operator/(F32x16 a, F32x16 b) { return {_mm512_div_ps(a.v, b.v)}; }
  // a * b + c, rounded once.
  static F32x16 Fma(F32x16 a, F32x16 b, F32x16 c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
  // The second operand where one is NaN.
  static F32x16 Max(F32x16 a, F32x16 b) { return {_mm512_max_ps(a.v, b.v)}; }
  static F32x16 Min(F32x16 a, F32x16 b) { return {_mm512_min_ps(a.v, b.v)}; }
  static F32x16 Round(F32x16 a) {
    return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
  }
  // 2^n for integers n in [-126, 127].
  static F32x16 PowerOfTwo(F32x16 n) {
    const __m512i biased = _mm512_add_epi32(_mm512_cvtps_epi32(n.v), _mm512_set1_epi32(127));
    return {_mm512_castsi512_ps(_mm512_slli_epi32(biased, 23))};
  }
  // a * 2^n for integers n in [-151, 151], rounded once.
  static F32x16 Scale(F32x16 a, F32x16 n) { return {_mm512_scalef_ps(a.v, n.v)}; }
  static F32x16 Abs(F32x16 a) { return {_mm512_abs_ps(a.v)}; }
  // |a| with the sign of `sign`.
  static F32x16 CopySign(F32x16 a, F32x16 sign) {
    const __m512i mask = _mm512_set1_epi32(static_cast<int>(0x80000000u));
    return {_mm512_castsi512_ps(_mm512_ternarylogic_epi32(mask, _mm512_castps_si512(sign.v),
                                                          _mm512_castps_si512(a.v), 0xca))};
  }
  // The sign of the even lanes flipped.
  static F32x16 NegateEven(F32x16 a) {
    const __m512i mask = _mm512_set1_epi64(0x80000000);
    return {_mm512_castsi512_ps(_mm512_xor_si512(_mm512_castps_si512(a.v), mask))};
  }
  static F32x16 SwapPairs(F32x16 a) { return {_mm512_permute_ps(a.v, 0xb1)}; }
  // Lanes i with low <= i < high from a, the others `other`.
  static F32x16 InRange(F32x16 a, int low, int high, F32x16 other) {
    return {_mm512_mask_mov_ps(other.v, First(high) & ~First(low), a.v)};
  }

  // Bit i: a >= b (or the like) in lane i; false where one is NaN.
  static uint32_t AtLeast(F32x16 a, F32x16 b) { return _mm512_cmp_ps_mask(a.v, b.v, _CMP_GE_OQ); }
  static uint32_t Above(F32x16 a, F32x16 b) { return _mm512_cmp_ps_mask(a.v, b.v, _CMP_GT_OQ); }
  static uint32_t Equal(F32x16 a, F32x16 b) { return _mm512_cmp_ps_mask(a.v, b.v, _CMP_EQ_OQ); }
  // a in the lanes of `mask`, `other` elsewhere.
  static F32x16 Choose(uint32_t mask, F32x16 a, F32x16 other) {
    return {_mm512_mask_mov_ps(other.v, static_cast<__mmask16>(mask), a.v)};
  }
  // Stores the lanes of `mask` one after the other; what follows them, up to p + 16, is undefined.
  void Compress(float* p, uint32_t mask) const {
    _mm512_storeu_ps(p, _mm512_maskz_compress_ps(static_cast<__mmask16>(mask), v));
  }

  float Sum() const {
    return Reduce([](__m256 a, __m256 b) { return _mm256_add_ps(a, b); },
                  [](__m128 a, __m128 b) { return _mm_add_ps(a, b); });
  }
  float Largest() const {
    return Reduce([](__m256 a, __m256 b) { return _mm256_max_ps(a, b); },
                  [](__m128 a, __m128 b) { return _mm_max_ps(a, b); });
  }

  // rows[i] lane j becomes rows[j] lane i.
  static void Transpose(F32x16 (&rows)[16]) {
    __m512 a[16], b[16];
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      a[2 * i] = _mm512_unpacklo_ps(rows[2 * i].v, rows[2 * i + 1].v);
      a[2 * i + 1] = _mm512_unpackhi_ps(rows[2 * i].v, rows[2 * i + 1].v);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
#pragma GCC unroll 2
      for (int half = 0; half < 2; ++half) {
        const __m512d low = _mm512_castps_pd(a[4 * i + half]);
        const __m512d high = _mm512_castps_pd(a[4 * i + 2 + half]);
        b[4 * i + 2 * half] = _mm512_castpd_ps(_mm512_unpacklo_pd(low, high));
        b[4 * i + 2 * half + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(low, high));
      }
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const __m512 p = _mm512_shuffle_f32x4(b[i], b[4 + i], 0x88);
      const __m512 q = _mm512_shuffle_f32x4(b[8 + i], b[12 + i], 0x88);
      const __m512 r = _mm512_shuffle_f32x4(b[i], b[4 + i], 0xdd);
      const __m512 s = _mm512_shuffle_f32x4(b[8 + i], b[12 + i], 0xdd);
      rows[i].v = _mm512_shuffle_f32x4(p, q, 0x88);
      rows[8 + i].v = _mm512_shuffle_f32x4(p, q, 0xdd);
      rows[4 + i].v = _mm512_shuffle_f32x4(r, s, 0x88);
      rows[12 + i].v = _mm512_shuffle_f32x4(r, s, 0xdd);
    }
  }

 private:
  static __mmask16 First(int n) { return static_cast<__mmask16>((1u << n) - 1u); }
  __m256i ToHalf() const {
    return _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  __m256i ToBFloat() const {
    const __m512i bits = _mm512_castps_si512(v);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i rounded =
        _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    const __m512i quiet = _mm512_or_si512(bits, _mm512_set1_epi32(0x400000));
    const __mmask16 nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(_mm512_mask_mov_epi32(rounded, nan, quiet), 16));
  }
  __m128i ToFloat8() const {
    const __m512 size = _mm512_min_ps(_mm512_abs_ps(v), _mm512_set1_ps(Float8::kMax));
    const __m512i bits = _mm512_castps_si512(size);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 20), _mm512_set1_epi32(1));
    const __m512i rounded =
        _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7ffff)));
    const __m512i normal =
        _mm512_sub_epi32(_mm512_srli_epi32(rounded, 20), _mm512_set1_epi32(120 << 3));
    // Below 2^-6 a step is 2^-9, which is that of floats at 2^14.
    const __m512 base = _mm512_set1_ps(0x1p14f);
    const __m512i steps =
        _mm512_sub_epi32(_mm512_castps_si512(_mm512_add_ps(size, base)), _mm512_castps_si512(base));
    const __mmask16 small = _mm512_cmp_ps_mask(size, _mm512_set1_ps(0x1p-6f), _CMP_LT_OQ);
    const __m512i code = _mm512_mask_mov_epi32(normal, small, steps);
    const __mmask16 negative = _mm512_movepi32_mask(_mm512_castps_si512(v));
    return _mm512_cvtepi32_epi8(
        _mm512_mask_or_epi32(code, negative, code, _mm512_set1_epi32(0x80)));
  }
  __m128i ToInt8() const {
    const __m512 limit = _mm512_set1_ps(Int8::kMax);
    const __m512 near = _mm512_max_ps(_mm512_min_ps(v, limit), _mm512_set1_ps(-Int8::kMax));
    return _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(near));
  }
  // Halves are folded: lane i with i + 8, then i + 4, i + 2, i + 1.
  template <class Fold8, class Fold4>
  float Reduce(const Fold8& fold8, const Fold4& fold4) const {
    const __m256 eight = fold8(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
    __m128 four = fold4(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    four = fold4(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(fold4(four, _mm_shuffle_ps(four, four, 1)));
  }
};

// Sixteen doubles in two registers.
struct F64x16 {
  __m512d a, b;

  static F64x16 Zero() { return {_mm512_setzero_pd(), _mm512_setzero_pd()}; }
  static F64x16 Set1(double x) { return {_mm512_set1_pd(x), _mm512_set1_pd(x)}; }
  static F64x16 From(F32x16 x) {
    return {_mm512_cvtps_pd(_mm512_castps512_ps256(x.v)),
            _mm512_cvtps_pd(_mm512_extractf32x8_ps(x.v, 1))};
  }
  double Sum() const {
    const __m512d eight = _mm512_add_pd(a, b);
    const __m256d four =
        _mm256_add_pd(_mm512_castpd512_pd256(eight), _mm512_extractf64x4_pd(eight, 1));
    const __m128d two = _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));
    return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
  }
  void Store(double* p) const {
    _mm512_storeu_pd(p, a);
    _mm512_storeu_pd(p + 8, b);
  }
  friend F64x16 operator+(F64x16 x, F64x16 y) {
    return {_mm512_add_pd(x.a, y.a), _mm512_add_pd(x.b, y.b)};
  }
  friend F64x16 operator-(F64x16 x, F64x16 y) {
    return {_mm512_sub_pd(x.a, y.a), _mm512_sub_pd(x.b, y.b)};
  }
};

}  // namespace sluice::cpu::avx512
