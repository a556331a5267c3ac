#include "backend/xpu/pieces/element.cl"
#include "backend/xpu/pieces/linear.cl"
#include "backend/xpu/pieces/reduce.cl"
// Products of rows of x with weights packed 16 rows of W together (linear/pack.h), in F32:
// SLUICE_PRODUCTS(ROWS) adds to float16 sum[ROWS] those of 16 outputs from `first` of n on with the
// rows of x at `at`, for the weights at `w`. -D ACT (type), and for the weight either
//   PLAIN: f32, f16, bf16, f8, i8,                           or
//   SUB (16, 32), NIBBLE (0: signed bytes, 1), OFFSET (of nibbles), MINIMUM (0, 1), SCALE: f16,
//   f32, and E2M1=1 where nibbles are floats of two bits of exponent and one of mantissa;
// with SCALES where the weight has some beside those of its blocks: 1: one, 2: of rows, 3, of f8
// alone: of blocks of 128 by 128; with ORDERED where column k of blocks meets element order[k] of
// x. AHEAD as in pieces/linear.cl.
//
// The order of adding is one for every number of rows: four sums by k modulo 4 in each sub-block
// (of all of k for plain weights, of 128 where they have scales), put together by pairs; then
// scales and minimums, k ascending.
#ifdef PLAIN
#define load16_weight SLUICE_CAT(load16_, PLAIN)
#else
#define CODE_BYTES (NIBBLE ? SUB * 8 : SUB * 16)
#define SUB_BYTES (CODE_BYTES + SCALE_BYTES * (1 + MINIMUM))

// Twice the floats: moved into F32's places a code is 2^-126 of what it means.
#define TWICE_E2M1(code) \
  (as_float16(((code) & (uint16)(8u)) << 28 | ((code) & (uint16)(7u)) << 22) * 0x1p127f)

// Four rows of codes, k = 4 i .. 4 i + 3.
#ifdef E2M1
#define LOAD_CODES(w, i, a, b, c, d)                         \
  const uint16 ab = convert_uint16(vload16(2 * (i), w));     \
  const uint16 cd = convert_uint16(vload16(2 * (i) + 1, w)); \
  const float16 a = TWICE_E2M1(ab);                          \
  const float16 b = TWICE_E2M1(ab >> 4);                     \
  const float16 c = TWICE_E2M1(cd);                          \
  const float16 d = TWICE_E2M1(cd >> 4);
#elif NIBBLE
#define LOAD_CODES(w, i, a, b, c, d)                               \
  const uint16 ab = convert_uint16(vload16(2 * (i), w));           \
  const uint16 cd = convert_uint16(vload16(2 * (i) + 1, w));       \
  const float16 a = convert_float16(as_int16(ab & (uint16)(15u))); \
  const float16 b = convert_float16(as_int16(ab >> 4));            \
  const float16 c = convert_float16(as_int16(cd & (uint16)(15u))); \
  const float16 d = convert_float16(as_int16(cd >> 4));
#else
#define LOAD_CODES(w, i, a, b, c, d)                  \
  const float16 a = load16_i8(w, (4 * (i) + 0) * 16); \
  const float16 b = load16_i8(w, (4 * (i) + 1) * 16); \
  const float16 c = load16_i8(w, (4 * (i) + 2) * 16); \
  const float16 d = load16_i8(w, (4 * (i) + 3) * 16);
#endif

#ifdef ORDERED
#define X_PARAMS Bytes x, ulong at, global const int *order
float16 x16(X_PARAMS, int k) {
  float lanes[16];
  for (int i = 0; i < 16; ++i) lanes[i] = load_act(x, at + order[k + i]);
  return vload16(0, lanes);
}
#define X_AT(at, k) load_act(x, (at) + order[k])
#define SUB_SUM(at, k) sub_sum(x, at, order, k)
#define X16(k) x16(x, at, order, k)
#else
#define X_PARAMS Bytes x, ulong at
#define X_AT(at, k) load_act(x, (at) + (k))
#define SUB_SUM(at, k) sub_sum(x, at, k)
#define X16(k) load16_act(x, at + (k))
#endif

float sub_sum(X_PARAMS, int k) {
#if SUB == 32
  return sum16(X16(k) + X16(k + 16));
#else
  return sum16(X16(k));
#endif
}
#endif

#ifdef SCALES
// The scales of 16 rows of W, from `first` on, as far as there are rows.
float16 row_scales(Bytes scales, int first, int n) {
  if (SCALES == 1) return (float16)(load_f32(scales, 0));
  if (SCALES == 3) return (float16)(1.0f);
  if (first + 16 <= n) return load16_f32(scales, first);
  float lanes[16] = {0.0f};
  for (int i = 0; first + i < n; ++i) lanes[i] = load_f32(scales, first + i);
  return vload16(0, lanes);
}
#define SCALE_ROWS(ROWS)                              \
  const float16 outer = row_scales(scales, first, n); \
  EACH(t, ROWS) sum[t] *= outer;
#else
#define SCALE_ROWS(ROWS)
#endif

#ifdef PLAIN
#define WEIGHT_AT(w, k) load16_weight(w, (ulong)(k)*16)
#define WEIGHT_BYTES_f32 4
#define WEIGHT_BYTES_f16 2
#define WEIGHT_BYTES_bf16 2
#define WEIGHT_BYTES_f8 1
#define WEIGHT_BYTES_i8 1
#define WEIGHT_BYTES SLUICE_CAT(WEIGHT_BYTES_, PLAIN)
// Sums of the elements [from, to) into s0 to s3.
#define PLAIN_SUMS(ROWS, from, to)                                    \
  float16 s0[ROWS], s1[ROWS], s2[ROWS], s3[ROWS];                     \
  EACH(t, ROWS) s0[t] = s1[t] = s2[t] = s3[t] = 0.0f;                 \
  for (int k = from; k + 4 <= (to); k += 4) {                         \
    ASK_AHEAD(w + (ulong)(k)*16 * WEIGHT_BYTES, 0, 64 * WEIGHT_BYTES) \
    const float16 a = WEIGHT_AT(w, k), b = WEIGHT_AT(w, k + 1);       \
    const float16 c = WEIGHT_AT(w, k + 2), d = WEIGHT_AT(w, k + 3);   \
    EACH(t, ROWS) {                                                   \
      s0[t] = fma(a, load_act(x, at[t] + k), s0[t]);                  \
      s1[t] = fma(b, load_act(x, at[t] + k + 1), s1[t]);              \
      s2[t] = fma(c, load_act(x, at[t] + k + 2), s2[t]);              \
      s3[t] = fma(d, load_act(x, at[t] + k + 3), s3[t]);              \
    }                                                                 \
  }                                                                   \
  for (int k = (from) + ((to) - (from)) / 4 * 4; k < (to); ++k) {     \
    const float16 a = WEIGHT_AT(w, k);                                \
    EACH(t, ROWS) s0[t] = fma(a, load_act(x, at[t] + k), s0[t]);      \
  }
#ifndef SCALES
#define SLUICE_PRODUCTS(ROWS) \
  PLAIN_SUMS(ROWS, 0, K)      \
  EACH(t, ROWS) sum[t] = (s0[t] + s1[t]) + (s2[t] + s3[t]);
#else
#define SLUICE_PRODUCTS(ROWS)                                                                  \
  for (int begin = 0; begin < K; begin += 128) {                                               \
    const int end = min(begin + 128, K);                                                       \
    PLAIN_SUMS(ROWS, begin, end)                                                               \
    const float inner =                                                                        \
        SCALES == 3 ? load_f32(scales, (ulong)(first / 128) * ((K + 127) / 128) + begin / 128) \
                    : 1.0f;                                                                    \
    EACH(t, ROWS)                                                                              \
    sum[t] = fma((float16)(inner), (s0[t] + s1[t]) + (s2[t] + s3[t]), sum[t]);                 \
  }                                                                                            \
  SCALE_ROWS(ROWS)
#endif
#else
#define SLUICE_PRODUCTS(ROWS)                                                      \
  for (int k = 0; k < K; k += SUB) {                                               \
    float16 s0[ROWS], s1[ROWS], s2[ROWS], s3[ROWS];                                \
    EACH(t, ROWS) s0[t] = s1[t] = s2[t] = s3[t] = 0.0f;                            \
    _Pragma("unroll") for (int i = 0; i < SUB / 4; ++i) {                          \
      ASK_AHEAD(w, i * 4 * SUB_BYTES / SUB, (i + 1) * 4 * SUB_BYTES / SUB)         \
      LOAD_CODES(w, i, a, b, c, d)                                                 \
      EACH(t, ROWS) {                                                              \
        const int from = k + 4 * i;                                                \
        s0[t] = fma(a, X_AT(at[t], from), s0[t]);                                  \
        s1[t] = fma(b, X_AT(at[t], from + 1), s1[t]);                              \
        s2[t] = fma(c, X_AT(at[t], from + 2), s2[t]);                              \
        s3[t] = fma(d, X_AT(at[t], from + 3), s3[t]);                              \
      }                                                                            \
    }                                                                              \
    const float16 scale = load16_scale(w + CODE_BYTES, 0);                         \
    EACH(t, ROWS) sum[t] = fma(scale, (s0[t] + s1[t]) + (s2[t] + s3[t]), sum[t]);  \
    if (MINIMUM) {                                                                 \
      const float16 low = load16_scale(w + CODE_BYTES + SCALE_BYTES * MINIMUM, 0); \
      EACH(t, ROWS) sum[t] = fma(low, SUB_SUM(at[t], k), sum[t]);                  \
    } else if (OFFSET != 0) {                                                      \
      const float16 low = scale * (float)(-OFFSET);                                \
      EACH(t, ROWS) sum[t] = fma(low, SUB_SUM(at[t], k), sum[t]);                  \
    }                                                                              \
    w += SUB_BYTES;                                                                \
  }                                                                                \
  SCALE_ROWS(ROWS)
#endif
