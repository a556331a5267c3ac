// Linear for AVX2 with FMA and F16C: 8 outputs a vector, up to 4 rows of x in registers.
#include <immintrin.h>

#include "backend/cpu/linear/linear_kernel.h"

namespace sluice::cpu {
namespace {

struct V256 {
  using I = __m256i;
  using F = __m256;
  static constexpr int kLanes = 8;
  static constexpr bool kNarrowSums = true;

  static SLUICE_INLINE I Load(const std::byte* p) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  }
  static SLUICE_INLINE I Zero() { return _mm256_setzero_si256(); }
  static SLUICE_INLINE I Byte(int value) { return _mm256_set1_epi8(static_cast<char>(value)); }
  static SLUICE_INLINE I Int(int value) { return _mm256_set1_epi32(value); }
  static SLUICE_INLINE I And(I a, I b) { return _mm256_and_si256(a, b); }
  static SLUICE_INLINE I Or(I a, I b) { return _mm256_or_si256(a, b); }
  template <int kBits>
  static SLUICE_INLINE I ShiftRight(I v) {
    return _mm256_srli_epi16(v, kBits);
  }
  template <int kBits>
  static SLUICE_INLINE I ShiftLeft(I v) {
    return _mm256_slli_epi16(v, kBits);
  }
  static SLUICE_INLINE I ShiftRightInt4(I v) { return _mm256_srli_epi32(v, 4); }
  static SLUICE_INLINE I Lookup(const uint8_t* table, I codes) {
    const __m128i values = _mm_loadu_si128(reinterpret_cast<const __m128i*>(table));
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(values), codes);
  }
  static SLUICE_INLINE __m128i Load8(const std::byte* p) {
    return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
  }
  static SLUICE_INLINE I LoadInt8(const std::byte* p) { return _mm256_cvtepi8_epi32(Load8(p)); }
  static SLUICE_INLINE I BroadcastInt(const std::byte* p) {
    int value;
    __builtin_memcpy(&value, p, sizeof value);
    return _mm256_set1_epi32(value);
  }
  static SLUICE_INLINE I SumPairs(I acc, I pairs) {
    return _mm256_add_epi32(acc, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
  }
  // Exact for codes up to 128: a pair of products stays below 2^15.
  static SLUICE_INLINE I Dot(I acc, I codes, const std::byte* x) {
    return SumPairs(acc, _mm256_maddubs_epi16(codes, BroadcastInt(x)));
  }
  // For codes with an offset of 128: sum of (code - 128) * x.
  static SLUICE_INLINE I DotSigned(I acc, I codes, const std::byte* x) {
    const I w = _mm256_xor_si256(codes, Byte(0x80));
    return SumPairs(acc,
                    _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(BroadcastInt(x), w)));
  }

  static SLUICE_INLINE F ZeroFloat() { return _mm256_setzero_ps(); }
  static SLUICE_INLINE F Add(F a, F b) { return _mm256_add_ps(a, b); }
  static SLUICE_INLINE F Mul(F a, F b) { return _mm256_mul_ps(a, b); }
  static SLUICE_INLINE F Fma(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }
  static SLUICE_INLINE F Negate(F a) { return _mm256_xor_ps(a, _mm256_set1_ps(-0.0f)); }
  static SLUICE_INLINE F ToFloat(I v) { return _mm256_cvtepi32_ps(v); }
  static SLUICE_INLINE F Broadcast(const float* p) { return _mm256_broadcast_ss(p); }
  static SLUICE_INLINE F LoadF32(const std::byte* p) {
    return _mm256_loadu_ps(reinterpret_cast<const float*>(p));
  }
  static SLUICE_INLINE F LoadF16(const std::byte* p) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  static SLUICE_INLINE F LoadBF16(const std::byte* p) {
    const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
  }
  // Read as an F16 of the same exponent field, a value lacks a factor of 2^8.
  static SLUICE_INLINE F LoadF8(const std::byte* p) {
    const __m128i bytes = _mm_cvtepu8_epi16(Load8(p));
    const __m128i magnitude = _mm_and_si128(bytes, _mm_set1_epi16(0x7f));
    const __m128i sign = _mm_slli_epi16(_mm_srli_epi16(bytes, 7), 15);
    const __m128i half = _mm_blendv_epi8(_mm_slli_epi16(magnitude, 7), _mm_set1_epi16(0x7e00),
                                         _mm_cmpeq_epi16(magnitude, _mm_set1_epi16(0x7f)));
    return Mul(_mm256_cvtph_ps(_mm_or_si128(half, sign)), _mm256_set1_ps(256.0f));
  }
  static SLUICE_INLINE F LoadE8M0Half(const std::byte* p) {
    const I e = _mm256_cvtepu8_epi32(Load8(p));
    const I normal = _mm256_slli_epi32(_mm256_sub_epi32(e, Int(1)), 23);
    const I subnormal = _mm256_sllv_epi32(Int(0x00200000), e);
    const I small = _mm256_cmpgt_epi32(Int(2), e);
    return _mm256_castsi256_ps(_mm256_blendv_epi8(normal, subnormal, small));
  }
  static SLUICE_INLINE I PartMask(int lanes) {
    return _mm256_cmpgt_epi32(Int(lanes), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
  static SLUICE_INLINE F LoadPart(const float* p, int lanes) {
    return _mm256_maskload_ps(p, PartMask(lanes));
  }
  static SLUICE_INLINE void StorePart(float* p, F value, int lanes) {
    _mm256_maskstore_ps(p, PartMask(lanes), value);
  }
  static SLUICE_INLINE void Prefetch(const std::byte* p, int bytes) {
    for (int i = 0; i < bytes; i += 64) {
      const char* line = reinterpret_cast<const char*>(p + i);
      _mm_prefetch(line + 8192, _MM_HINT_T1);
      _mm_prefetch(line + 1024, _MM_HINT_T0);
    }
  }

  static SLUICE_INLINE float QuantizeBlock(const float* x, int8_t* codes, int32_t* sums);
};

SLUICE_INLINE int32_t SumLanes(__m256i v) {
  __m128i sum = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0xb1)));
}

SLUICE_INLINE uint32_t MaxLanes(__m256i v) {
  __m128i max = _mm_max_epu32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  max = _mm_max_epu32(max, _mm_shuffle_epi32(max, 0x4e));
  return static_cast<uint32_t>(_mm_cvtsi128_si32(_mm_max_epu32(max, _mm_shuffle_epi32(max, 0xb1))));
}

SLUICE_INLINE float V256::QuantizeBlock(const float* x, int8_t* codes, int32_t* sums) {
  F in[4];
  I largest = Zero();
  Unroll<0, 4>(SLUICE_EACH(i) {
    in[i.value] = _mm256_loadu_ps(x + 8 * i.value);
    largest = _mm256_max_epu32(largest, And(_mm256_castps_si256(in[i.value]), Int(0x7fffffff)));
  });
  float factor;
  const float dx = ActivationScale(MaxLanes(largest), &factor);
  I out[4];
  Unroll<0, 4>(SLUICE_EACH(i) {
    out[i.value] = _mm256_cvtps_epi32(Mul(in[i.value], _mm256_set1_ps(factor)));
  });
  sums[0] = SumLanes(_mm256_add_epi32(out[0], out[1]));
  sums[1] = SumLanes(_mm256_add_epi32(out[2], out[3]));
  // Packing works per half of a vector; the permutation puts the groups of four back in order.
  const I bytes =
      _mm256_packs_epi16(_mm256_packs_epi32(out[0], out[1]), _mm256_packs_epi32(out[2], out[3]));
  const I order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  _mm256_store_si256(reinterpret_cast<__m256i*>(codes), _mm256_permutevar8x32_epi32(bytes, order));
  return dx;
}

}  // namespace

constinit const LinearKernels kAvx2LinearKernels = MakeKernels<V256, 1, 2, 4>();

}  // namespace sluice::cpu
