#include "backend/xpu/pieces/activate.cl"
#include "backend/xpu/pieces/dot.cl"
#include "backend/xpu/pieces/linear.cl"
#include "backend/xpu/pieces/reduce.cl"
// Rows of x rounded to int8 as ops/linear.h has it, and their products with weights in nibbles,
// packed for byte products (linear/pack.h). -D ACT, SUB (16, 32), OFFSET, MINIMUM (0, 1), SCALE:
// f16, f32, AHEAD, K_MAX: at least K; for gated
// activations KIND as in pieces/activate.cl.
#define BLOCK 32  // activations that share a scale
#define CODE_BYTES (SUB * 8)
#define SUB_BYTES (CODE_BYTES + SCALE_BYTES * (1 + MINIMUM))

// One row of x. `codes` as bytes in the order of k; sums of codes per SUB.
typedef struct {
  uint codes[K_MAX / 4];
  float scale[K_MAX / BLOCK];
  int sum[K_MAX / SUB];
} Rounded;

int isum16(int16 x) {
  const int8 a = x.lo + x.hi;
  const int4 b = a.lo + a.hi;
  return (b.x + b.y) + (b.z + b.w);
}
uint umax16(uint16 x) {
  const uint8 a = max(x.lo, x.hi);
  const uint4 b = max(a.lo, a.hi);
  return max(max(b.x, b.y), max(b.z, b.w));
}

// What rows of x are made of, by the same steps as the kernels that would make them alone: kind 0
// nothing, they are there; 1 RMSNorm of a row of `source`; 2 the gated activation of one.
typedef struct {
  int kind;
  Bytes source;
  ulong stride;
  global const float* norm_weight;
  float eps;
} From;

float norm_factor(const From* from, ulong at, int K) {
  float16 squares = 0.0f;
  for (int k = 0; k < K; k += 16) {
    const float16 v = load16_act(from->source, at + k);
    squares += v * v;
  }
  return inverse_rms(sum16(squares), K, from->eps);
}
float16 made16(const From* from, ulong at, float factor, int k, int K) {
  const float16 v = load16_act(from->source, at + k);
#ifdef KIND
  if (from->kind == 2) return activate_gate16(v, load16_act(from->source, at + K + k));
#endif
  return v * factor * vload16(0, from->norm_weight + k);
}

// `at` in x, `row` of the source. What is made is written to x as well where `writes`.
void round_row(BytesOut x, ulong at, const From* from, ulong source_row, bool writes, int K,
               Rounded* row) {
  const ulong source_at = source_row * from->stride;
  const float factor = from->kind == 1 ? norm_factor(from, source_at, K) : 0.0f;
  for (int k = 0; k < K; k += BLOCK) {
    float16 a, b;
    if (from->kind == 0) {
      a = load16_act(x, at + k);
      b = load16_act(x, at + k + 16);
    } else {
      a = made16(from, source_at, factor, k, K);
      b = made16(from, source_at, factor, k + 16, K);
    }
    if (from->kind != 0 && writes) {
      store16_act(x, at + k, a);
      store16_act(x, at + k + 16, b);
    }
    // Compared as integers, so that NaN is the largest.
    const uint16 magnitudes = max(as_uint16(fabs(a)), as_uint16(fabs(b)));
    const uint bits = umax16(magnitudes);
    const float largest = as_float(bits);
    const bool finite = bits < 0x7f800000u, some = finite && largest >= 0x1p-100f;
    const float inverse = some ? 127.0f / largest : 0.0f;
    row->scale[k / BLOCK] = some ? largest / 127.0f : finite ? 0.0f : NAN;
    const int16 low = some ? convert_int16(rint(a * inverse)) : 0;
    const int16 high = some ? convert_int16(rint(b * inverse)) : 0;
    vstore16(convert_char16(low), k / 16, (char*)row->codes);
    vstore16(convert_char16(high), k / 16 + 1, (char*)row->codes);
#if SUB == 32
    row->sum[k / SUB] = isum16(low + high);
#else
    row->sum[k / SUB] = isum16(low);
    row->sum[k / SUB + 1] = isum16(high);
#endif
  }
}

// acc[t]: the products of rows[t] with the 16 rows of W at w.
#define SLUICE_INT8_PRODUCTS(ROWS)                                                   \
  float16 acc[ROWS];                                                                 \
  EACH(t, ROWS) acc[t] = 0.0f;                                                       \
  for (int k = 0; k < K; k += SUB) {                                                 \
    Products dots[ROWS];                                                             \
    EACH(t, ROWS) dots[t] = no_products();                                           \
    _Pragma("unroll") for (int i = 0; i < SUB / 8; ++i) {                            \
      ASK_AHEAD(w, i * 8 * SUB_BYTES / SUB, (i + 1) * 8 * SUB_BYTES / SUB)           \
      const uint16 both = vload16(i, (global const uint*)w);                         \
      const uint16 low = both & 0x0f0f0f0fu, high = both >> 4 & 0x0f0f0f0fu;         \
      EACH(t, ROWS) {                                                                \
        dots[t] = add_products(dots[t], low, rows[t].codes[k / 4 + 2 * i]);          \
        dots[t] = add_products(dots[t], high, rows[t].codes[k / 4 + 2 * i + 1]);     \
      }                                                                              \
    }                                                                                \
    const float16 scale = load16_scale(w + CODE_BYTES, 0);                           \
    EACH(t, ROWS) {                                                                  \
      const int sum = rows[t].sum[k / SUB];                                          \
      const float dx = rows[t].scale[k / BLOCK];                                     \
      const float16 dot = convert_float16(lane_sums(dots[t]) - OFFSET * sum);        \
      acc[t] = fma(scale * dx, dot, acc[t]);                                         \
      if (MINIMUM) {                                                                 \
        const float16 low = load16_scale(w + CODE_BYTES + SCALE_BYTES * MINIMUM, 0); \
        acc[t] = fma(low, (float16)(dx * (float)sum), acc[t]);                       \
      }                                                                              \
    }                                                                                \
    w += SUB_BYTES;                                                                  \
  }
