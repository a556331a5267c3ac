// F32x16 on AVX2: sixteen floats in two registers. The same interface and the same results to the
// bit as avx512.h; kernels are templates over it. Included only by files compiled for AVX2.
#pragma once

#include <immintrin.h>

#include "backend/cpu/simd/half.h"

namespace sluice::cpu::avx2 {

struct F32x16 {
  __m256 a, b;  // lanes 0-7 and 8-15

  static F32x16 Zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
  static F32x16 Set1(float x) {
    const __m256 v = _mm256_set1_ps(x);
    return {v, v};
  }
  static F32x16 Load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
  static F32x16 Load(const Half* p) { return {HalfToF32(p), HalfToF32(p + 8)}; }
  static F32x16 Load(const BFloat* p) { return {BFloatToF32(p), BFloatToF32(p + 8)}; }
  static F32x16 Load(const Float8* p) {
    // The exponent and mantissa of an E4M3 are those of an F16 of 2^-8 of its number.
    const __m128i* from = reinterpret_cast<const __m128i*>(p);
    const __m256i words = _mm256_slli_epi16(_mm256_cvtepi8_epi16(_mm_loadu_si128(from)), 7);
    const __m256i half = _mm256_and_si256(words, _mm256_set1_epi16(static_cast<int16_t>(0xbfff)));
    return {_mm256_cvtph_ps(_mm256_castsi256_si128(half)),
            _mm256_cvtph_ps(_mm256_extracti128_si256(half, 1))};
  }
  static F32x16 Load(const Int8* p) { return {IntsToF32(p), IntsToF32(p + 8)}; }
  // The first n lanes, 0 <= n <= 16; the others are 0 and not read.
  static F32x16 LoadFirst(const float* p, int n) {
    return {_mm256_maskload_ps(p, InFirst(0, n)), _mm256_maskload_ps(p + 8, InFirst(8, n))};
  }
  // Lanes 2i and 2i + 1 are p[i]; p has 8 floats.
  static F32x16 LoadTwice(const float* p) {
    const __m256 x = _mm256_loadu_ps(p);
    return {_mm256_permutevar8x32_ps(x, _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3)),
            _mm256_permutevar8x32_ps(x, _mm256_setr_epi32(4, 4, 5, 5, 6, 6, 7, 7))};
  }

  void Store(float* p) const {
    _mm256_storeu_ps(p, a);
    _mm256_storeu_ps(p + 8, b);
  }
  // Rounds to nearest even.
  void Store(Half* p) const {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), ToHalf(a));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p + 8), ToHalf(b));
  }
  void Store(BFloat* p) const {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), ToBFloat(a));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p + 8), ToBFloat(b));
  }
  // The nearest code, ties to even; what lies beyond the largest becomes the largest.
  void Store(Float8* p) const { StoreBytes(ToFloat8(a), ToFloat8(b), p); }
  void Store(Int8* p) const { StoreBytes(ToInt8(a), ToInt8(b), p); }
  void StoreFirst(float* p, int n) const {
    _mm256_maskstore_ps(p, InFirst(0, n), a);
    _mm256_maskstore_ps(p + 8, InFirst(8, n), b);
  }
  template <class T>
  void StoreFirst(T* p, int n) const {
    T all[16];
    Store(all);
    for (int i = 0; i < n; ++i) p[i] = all[i];
  }

  friend F32x16 operator+(F32x16 x, F32x16 y) {
    return {_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)};
  }
  friend F32x16 operator-(F32x16 x, F32x16 y) {
    return {_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)};
  }
  friend F32x16 operator*(F32x16 x, F32x16 y) {
    return {_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)};
  }
  friend F32x16 operator/(F32x16 x, F32x16 y) {
    return {_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)};
  }
  // x * y + z, rounded once.
  static F32x16 Fma(F32x16 x, F32x16 y, F32x16 z) {
    return {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
  }
  // The second operand where one is NaN.
  static F32x16 Max(F32x16 x, F32x16 y) {
    return {_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)};
  }
  static F32x16 Min(F32x16 x, F32x16 y) {
    return {_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b)};
  }
  static F32x16 Round(F32x16 x) {
    constexpr int kMode = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
    return {_mm256_round_ps(x.a, kMode), _mm256_round_ps(x.b, kMode)};
  }
  // 2^n for integers n in [-126, 127].
  static F32x16 PowerOfTwo(F32x16 n) { return {PowerOfTwo(n.a), PowerOfTwo(n.b)}; }
  // x * 2^n for integers n in [-151, 151] and x near 1, rounded once: in two steps, since 2^n
  // itself may be no normal number.
  static F32x16 Scale(F32x16 x, F32x16 n) {
    const F32x16 half = Round(n * Set1(0.5f));
    return x * PowerOfTwo(half) * PowerOfTwo(n - half);
  }
  static F32x16 Abs(F32x16 x) {
    const __m256 sign = _mm256_set1_ps(-0.0f);
    return {_mm256_andnot_ps(sign, x.a), _mm256_andnot_ps(sign, x.b)};
  }
  // |x| with the sign of `sign`.
  static F32x16 CopySign(F32x16 x, F32x16 sign) {
    const __m256 mask = _mm256_set1_ps(-0.0f);
    return {_mm256_or_ps(_mm256_andnot_ps(mask, x.a), _mm256_and_ps(mask, sign.a)),
            _mm256_or_ps(_mm256_andnot_ps(mask, x.b), _mm256_and_ps(mask, sign.b))};
  }
  // The sign of the even lanes flipped.
  static F32x16 NegateEven(F32x16 x) {
    const __m256 mask = _mm256_setr_ps(-0.0f, 0, -0.0f, 0, -0.0f, 0, -0.0f, 0);
    return {_mm256_xor_ps(x.a, mask), _mm256_xor_ps(x.b, mask)};
  }
  static F32x16 SwapPairs(F32x16 x) {
    return {_mm256_permute_ps(x.a, 0xb1), _mm256_permute_ps(x.b, 0xb1)};
  }
  // Lanes i with low <= i < high from x, the others `other`.
  static F32x16 InRange(F32x16 x, int low, int high, F32x16 other) {
    const __m256i in_a = _mm256_andnot_si256(InFirst(0, low), InFirst(0, high));
    const __m256i in_b = _mm256_andnot_si256(InFirst(8, low), InFirst(8, high));
    return {_mm256_blendv_ps(other.a, x.a, _mm256_castsi256_ps(in_a)),
            _mm256_blendv_ps(other.b, x.b, _mm256_castsi256_ps(in_b))};
  }

  // Bit i: x >= y (or the like) in lane i; false where one is NaN.
  static uint32_t AtLeast(F32x16 x, F32x16 y) { return Compare<_CMP_GE_OQ>(x, y); }
  static uint32_t Above(F32x16 x, F32x16 y) { return Compare<_CMP_GT_OQ>(x, y); }
  static uint32_t Equal(F32x16 x, F32x16 y) { return Compare<_CMP_EQ_OQ>(x, y); }
  // x in the lanes of `mask`, `other` elsewhere.
  static F32x16 Choose(uint32_t mask, F32x16 x, F32x16 other) {
    return {_mm256_blendv_ps(other.a, x.a, Lanes(mask, 0)),
            _mm256_blendv_ps(other.b, x.b, Lanes(mask, 8))};
  }
  // Stores the lanes of `mask` one after the other; what follows them, up to p + 16, is undefined.
  void Compress(float* p, uint32_t mask) const {
    float all[16];
    Store(all);
    for (; mask != 0; mask &= mask - 1) *p++ = all[__builtin_ctz(mask)];
  }

  float Sum() const {
    return Reduce([](__m256 x, __m256 y) { return _mm256_add_ps(x, y); },
                  [](__m128 x, __m128 y) { return _mm_add_ps(x, y); });
  }
  float Largest() const {
    return Reduce([](__m256 x, __m256 y) { return _mm256_max_ps(x, y); },
                  [](__m128 x, __m128 y) { return _mm_max_ps(x, y); });
  }

  // rows[i] lane j becomes rows[j] lane i.
  static void Transpose(F32x16 (&rows)[16]) {
    __m256 block[4][8];
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      block[0][i] = rows[i].a;
      block[1][i] = rows[i].b;
      block[2][i] = rows[8 + i].a;
      block[3][i] = rows[8 + i].b;
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) Transpose8(block[i]);
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      rows[i] = {block[0][i], block[2][i]};
      rows[8 + i] = {block[1][i], block[3][i]};
    }
  }

 private:
  template <int kHow>
  static uint32_t Compare(F32x16 x, F32x16 y) {
    const int low = _mm256_movemask_ps(_mm256_cmp_ps(x.a, y.a, kHow));
    const int high = _mm256_movemask_ps(_mm256_cmp_ps(x.b, y.b, kHow));
    return static_cast<uint32_t>(low | high << 8);
  }
  // All bits of lane i set where bit first + i of `mask` is.
  static __m256 Lanes(uint32_t mask, int first) {
    const __m256i bits = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    const __m256i all = _mm256_set1_epi32(static_cast<int>(mask >> first));
    return _mm256_castsi256_ps(_mm256_cmpeq_epi32(_mm256_and_si256(all, bits), bits));
  }
  // All bits of lane i set where first + i < n.
  static __m256i InFirst(int first, int n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n - first),
                              _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
  static __m256 HalfToF32(const Half* p) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  static __m256 BFloatToF32(const BFloat* p) {
    const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
  }
  static __m256 IntsToF32(const Int8* p) {
    const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
  }
  // Codes in 32-bit lanes.
  static __m256i ToFloat8(__m256 x) {
    const __m256 sign = _mm256_set1_ps(-0.0f);
    const __m256 size = _mm256_min_ps(_mm256_andnot_ps(sign, x), _mm256_set1_ps(Float8::kMax));
    const __m256i bits = _mm256_castps_si256(size);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 20), _mm256_set1_epi32(1));
    const __m256i rounded =
        _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7ffff)));
    const __m256i normal =
        _mm256_sub_epi32(_mm256_srli_epi32(rounded, 20), _mm256_set1_epi32(120 << 3));
    // Below 2^-6 a step is 2^-9, which is that of floats at 2^14.
    const __m256 base = _mm256_set1_ps(0x1p14f);
    const __m256i steps =
        _mm256_sub_epi32(_mm256_castps_si256(_mm256_add_ps(size, base)), _mm256_castps_si256(base));
    const __m256i small =
        _mm256_castps_si256(_mm256_cmp_ps(size, _mm256_set1_ps(0x1p-6f), _CMP_LT_OQ));
    const __m256i code = _mm256_blendv_epi8(normal, steps, small);
    const __m256i negative = _mm256_srli_epi32(_mm256_castps_si256(_mm256_and_ps(sign, x)), 24);
    return _mm256_or_si256(code, negative);
  }
  static __m256i ToInt8(__m256 x) {
    const __m256 limit = _mm256_set1_ps(Int8::kMax);
    const __m256 near =
        _mm256_max_ps(_mm256_min_ps(x, limit), _mm256_sub_ps(_mm256_setzero_ps(), limit));
    return _mm256_and_si256(_mm256_cvtps_epi32(near), _mm256_set1_epi32(0xff));
  }
  static void StoreBytes(__m256i low, __m256i high, void* p) {
    const __m256i words = _mm256_permute4x64_epi64(_mm256_packus_epi32(low, high), 0xd8);
    _mm_storeu_si128(
        static_cast<__m128i*>(p),
        _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1)));
  }
  static __m128i ToHalf(__m256 x) {
    return _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  static __m128i ToBFloat(__m256 x) {
    const __m256i bits = _mm256_castps_si256(x);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i rounded =
        _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    const __m256i words = _mm256_srli_epi32(_mm256_blendv_epi8(rounded, quiet, nan), 16);
    return _mm_packus_epi32(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
  }
  static __m256 PowerOfTwo(__m256 n) {
    const __m256i biased = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
    return _mm256_castsi256_ps(_mm256_slli_epi32(biased, 23));
  }
  static void Transpose8(__m256 (&r)[8]) {
    __m256 t[8], u[8];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      t[2 * i] = _mm256_unpacklo_ps(r[2 * i], r[2 * i + 1]);
      t[2 * i + 1] = _mm256_unpackhi_ps(r[2 * i], r[2 * i + 1]);
    }
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
#pragma GCC unroll 2
      for (int half = 0; half < 2; ++half) {
        u[4 * i + 2 * half] = _mm256_shuffle_ps(t[4 * i + half], t[4 * i + 2 + half], 0x44);
        u[4 * i + 2 * half + 1] = _mm256_shuffle_ps(t[4 * i + half], t[4 * i + 2 + half], 0xee);
      }
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      r[i] = _mm256_permute2f128_ps(u[i], u[4 + i], 0x20);
      r[4 + i] = _mm256_permute2f128_ps(u[i], u[4 + i], 0x31);
    }
  }
  // Halves are folded: lane i with i + 8, then i + 4, i + 2, i + 1.
  template <class Fold8, class Fold4>
  float Reduce(const Fold8& fold8, const Fold4& fold4) const {
    const __m256 eight = fold8(a, b);
    __m128 four = fold4(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    four = fold4(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(fold4(four, _mm_shuffle_ps(four, four, 1)));
  }
};

// Sixteen doubles in four registers.
struct F64x16 {
  __m256d v[4];

  static F64x16 Zero() { return Set1(0.0); }
  static F64x16 Set1(double x) {
    const __m256d all = _mm256_set1_pd(x);
    return {{all, all, all, all}};
  }
  static F64x16 From(F32x16 x) {
    return {{_mm256_cvtps_pd(_mm256_castps256_ps128(x.a)),
             _mm256_cvtps_pd(_mm256_extractf128_ps(x.a, 1)),
             _mm256_cvtps_pd(_mm256_castps256_ps128(x.b)),
             _mm256_cvtps_pd(_mm256_extractf128_ps(x.b, 1))}};
  }
  double Sum() const {
    const __m256d four = _mm256_add_pd(_mm256_add_pd(v[0], v[2]), _mm256_add_pd(v[1], v[3]));
    const __m128d two = _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));
    return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
  }
  void Store(double* p) const {
    for (int i = 0; i < 4; ++i) _mm256_storeu_pd(p + 4 * i, v[i]);
  }
  friend F64x16 operator+(F64x16 x, F64x16 y) {
    for (int i = 0; i < 4; ++i) x.v[i] = _mm256_add_pd(x.v[i], y.v[i]);
    return x;
  }
  friend F64x16 operator-(F64x16 x, F64x16 y) {
    for (int i = 0; i < 4; ++i) x.v[i] = _mm256_sub_pd(x.v[i], y.v[i]);
    return x;
  }
};

}  // namespace sluice::cpu::avx2
