#include "backend/xpu/pieces/element.cl"
#include "backend/xpu/pieces/reduce.cl"
// RMSNorm and LayerNorm, a work-group per row. -D ACT, LAYER (0, 1; 2: the sum alone),
// ADD (0, 1; 2: and the sum is scaled), BIAS.
// QK norm: -D ACT, a work-group per (head, token).

#define EACH16(i, n) for (int i = get_local_id(0) * 16; i + 16 <= (n); i += ITEMS * 16)
#define EACH_LEFT(i, n) for (int i = (n) / 16 * 16 + get_local_id(0); i < (n); i += ITEMS)

#ifdef LAYER
SLUICE_KERNEL any_f32_norm(Bytes x, ulong x_stride, BytesOut residual, ulong residual_stride,
                           global const float* weight, global const float* bias, BytesOut out,
                           ulong out_stride, int hidden, float eps, global const float* scale) {
  SLUICE_LOCAL_SUMS(parts);
  const ulong row = get_group_id(0);
  const ulong in = row * x_stride, to = row * out_stride, res = row * residual_stride;
#if ADD == 2
#define SUM(a, b) (((a) + (b)) * *scale)
#else
#define SUM(a, b) ((a) + (b))
#endif
#if ADD
  EACH16(i, hidden)
  store16_act(residual, res + i, SUM(load16_act(x, in + i), load16_act(residual, res + i)));
  EACH_LEFT(i, hidden)
  store_act(residual, res + i, SUM(load_act(x, in + i), load_act(residual, res + i)));
  group_barrier();
  Bytes from = residual;
  const ulong at = res;
#else
  Bytes from = x;
  const ulong at = in;
#endif
#if LAYER == 2
  EACH16(i, hidden) store16_act(out, to + i, load16_act(from, at + i));
  EACH_LEFT(i, hidden) store_act(out, to + i, load_act(from, at + i));
#else
  float mean = 0.0f;
#if LAYER
  float16 sums = 0.0f;
  float left = 0.0f;
  EACH16(i, hidden) sums += load16_act(from, at + i);
  EACH_LEFT(i, hidden) left += load_act(from, at + i);
  mean = group_sum(sum16(sums) + left, parts) / (float)hidden;
#endif
  float16 squares = 0.0f;
  float left_squares = 0.0f;
  EACH16(i, hidden) {
    const float16 v = load16_act(from, at + i) - mean;
    squares += v * v;
  }
  EACH_LEFT(i, hidden) {
    const float v = load_act(from, at + i) - mean;
    left_squares += v * v;
  }
  const float total = group_sum(sum16(squares) + left_squares, parts);
  const float inverse = inverse_rms(total, hidden, eps);
  EACH16(i, hidden) {
    float16 v = (load16_act(from, at + i) - mean) * inverse * vload16(0, weight + i);
#if BIAS
    v += vload16(0, bias + i);
#endif
    store16_act(out, to + i, v);
  }
  EACH_LEFT(i, hidden) {
    float v = (load_act(from, at + i) - mean) * inverse * weight[i];
#if BIAS
    v += bias[i];
#endif
    store_act(out, to + i, v);
  }
#endif
}
#else
SLUICE_KERNEL any_f32_qk_norm(BytesOut qkv, ulong stride, global const float* q_weight,
                              global const float* k_weight, int q_heads, int head_dim, float eps) {
  SLUICE_LOCAL_SUMS(parts);
  const int head = get_group_id(0);
  const ulong at = get_group_id(1) * stride + (ulong)head * head_dim;
  global const float* weight = head < q_heads ? q_weight : k_weight;
  float16 squares = 0.0f;
  float left = 0.0f;
  EACH16(i, head_dim) {
    const float16 v = load16_act(qkv, at + i);
    squares += v * v;
  }
  EACH_LEFT(i, head_dim) {
    const float v = load_act(qkv, at + i);
    left += v * v;
  }
  const float total = group_sum(sum16(squares) + left, parts);
  const float inverse = inverse_rms(total, head_dim, eps);
  EACH16(i, head_dim)
  store16_act(qkv, at + i, load16_act(qkv, at + i) * inverse * vload16(0, weight + i));
  EACH_LEFT(i, head_dim) store_act(qkv, at + i, load_act(qkv, at + i) * inverse * weight[i]);
}
#endif
