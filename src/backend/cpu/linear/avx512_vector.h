// The vector type of AVX-512 with VNNI for linear_kernel.h: 16 outputs a vector. For files compiled
// for AVX-512 or above.
#pragma once

#include <immintrin.h>

#include "backend/cpu/linear/linear_kernel.h"

namespace sluice::cpu {
namespace {

struct V512 {
  using I = __m512i;
  using F = __m512;
  static constexpr int kLanes = 16;
  static constexpr bool kNarrowSums = false;

  static SLUICE_INLINE I Load(const std::byte* p) { return _mm512_loadu_si512(p); }
  static SLUICE_INLINE I Zero() { return _mm512_setzero_si512(); }
  static SLUICE_INLINE I Byte(int value) { return _mm512_set1_epi8(static_cast<char>(value)); }
  static SLUICE_INLINE I Int(int value) { return _mm512_set1_epi32(value); }
  static SLUICE_INLINE I And(I a, I b) { return _mm512_and_si512(a, b); }
  static SLUICE_INLINE I Or(I a, I b) { return _mm512_or_si512(a, b); }
  template <int kBits>
  static SLUICE_INLINE I ShiftRight(I v) {
    return _mm512_srli_epi16(v, kBits);
  }
  template <int kBits>
  static SLUICE_INLINE I ShiftLeft(I v) {
    return _mm512_slli_epi16(v, kBits);
  }
  static SLUICE_INLINE I ShiftRightInt4(I v) { return _mm512_srli_epi32(v, 4); }
  static SLUICE_INLINE I Lookup(const uint8_t* table, I codes) {
    const __m128i values = _mm_loadu_si128(reinterpret_cast<const __m128i*>(table));
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(values), codes);
  }
  static SLUICE_INLINE I LoadInt8(const std::byte* p) {
    return _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  static SLUICE_INLINE I BroadcastInt(const std::byte* p) {
    int value;
    __builtin_memcpy(&value, p, sizeof value);
    return _mm512_set1_epi32(value);
  }
  struct [[gnu::packed, gnu::may_alias]] Word {
    int value;
  };
  // GCC 12 loads the broadcast into a register of its own first.
  static SLUICE_INLINE I Dot(I acc, I codes, const std::byte* x) {
    asm("vpdpbusd %2%{1to16%}, %1, %0"
        : "+v"(acc)
        : "v"(codes), "m"(*reinterpret_cast<const Word*>(x)));
    return acc;
  }
  static SLUICE_INLINE I DotSigned(I acc, I codes, const std::byte* x) {
    return Dot(acc, codes, x);
  }

  static SLUICE_INLINE F ZeroFloat() { return _mm512_setzero_ps(); }
  static SLUICE_INLINE F Add(F a, F b) { return _mm512_add_ps(a, b); }
  static SLUICE_INLINE F Mul(F a, F b) { return _mm512_mul_ps(a, b); }
  static SLUICE_INLINE F Fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
  static SLUICE_INLINE F Negate(F a) { return _mm512_xor_ps(a, _mm512_set1_ps(-0.0f)); }
  static SLUICE_INLINE F ToFloat(I v) { return _mm512_cvtepi32_ps(v); }
  static SLUICE_INLINE F Broadcast(const float* p) { return _mm512_set1_ps(*p); }
  static SLUICE_INLINE F LoadF32(const std::byte* p) { return _mm512_loadu_ps(p); }
  static SLUICE_INLINE F LoadF16(const std::byte* p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  static SLUICE_INLINE F LoadBF16(const std::byte* p) {
    const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
  }
  // Read as an F16 of the same exponent field, a value lacks a factor of 2^8.
  static SLUICE_INLINE F LoadF8(const std::byte* p) {
    const __m256i bytes =
        _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    const __m256i magnitude = _mm256_and_si256(bytes, _mm256_set1_epi16(0x7f));
    const __m256i sign = _mm256_slli_epi16(_mm256_srli_epi16(bytes, 7), 15);
    const __m256i half = _mm256_mask_mov_epi16(
        _mm256_slli_epi16(magnitude, 7),
        _mm256_cmpeq_epi16_mask(magnitude, _mm256_set1_epi16(0x7f)), _mm256_set1_epi16(0x7e00));
    return Mul(_mm512_cvtph_ps(_mm256_or_si256(half, sign)), _mm512_set1_ps(256.0f));
  }
  static SLUICE_INLINE F LoadE8M0Half(const std::byte* p) {
    const I e = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    const I normal = _mm512_slli_epi32(_mm512_sub_epi32(e, Int(1)), 23);
    const I subnormal = _mm512_sllv_epi32(Int(0x00200000), e);
    return _mm512_castsi512_ps(
        _mm512_mask_mov_epi32(normal, _mm512_cmplt_epi32_mask(e, Int(2)), subnormal));
  }
  static SLUICE_INLINE F LoadPart(const float* p, int lanes) {
    return _mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << lanes) - 1), p);
  }
  static SLUICE_INLINE void StorePart(float* p, F value, int lanes) {
    _mm512_mask_storeu_ps(p, static_cast<__mmask16>((1u << lanes) - 1), value);
  }
  // Codes that will be read after those at p: far ahead into the second-level cache, which has more
  // misses in flight, then into the first (measured on Sapphire Rapids, two threads, weights in
  // memory: 22 GB/s instead of 16 with the first alone).
  static SLUICE_INLINE void Prefetch(const std::byte* p, int bytes) {
    for (int i = 0; i < bytes; i += 64) {
      const char* line = reinterpret_cast<const char*>(p + i);
      _mm_prefetch(line + 8192, _MM_HINT_T1);
      _mm_prefetch(line + 1024, _MM_HINT_T0);
    }
  }

  static SLUICE_INLINE float QuantizeBlock(const float* x, int8_t* codes, int32_t* sums);
};

SLUICE_INLINE float V512::QuantizeBlock(const float* x, int8_t* codes, int32_t* sums) {
  const F low = _mm512_loadu_ps(x), high = _mm512_loadu_ps(x + 16);
  const I magnitude = Int(0x7fffffff);
  const uint32_t largest = _mm512_reduce_max_epu32(
      _mm512_max_epu32(_mm512_and_si512(_mm512_castps_si512(low), magnitude),
                       _mm512_and_si512(_mm512_castps_si512(high), magnitude)));
  float factor;
  const float dx = ActivationScale(largest, &factor);
  const F factors = _mm512_set1_ps(factor);
  const I a = _mm512_cvtps_epi32(Mul(low, factors)), b = _mm512_cvtps_epi32(Mul(high, factors));
  _mm_store_si128(reinterpret_cast<__m128i*>(codes), _mm512_cvtsepi32_epi8(a));
  _mm_store_si128(reinterpret_cast<__m128i*>(codes + 16), _mm512_cvtsepi32_epi8(b));
  sums[0] = _mm512_reduce_add_epi32(a);
  sums[1] = _mm512_reduce_add_epi32(b);
  return dx;
}

}  // namespace
}  // namespace sluice::cpu
