#include "backend/xpu/pieces/element.cl"
#include "backend/xpu/pieces/reduce.cl"
// RMSNorm of each head times SiLU of a gate, or of that product, a work-group per (head, token). -D
// ACT, GATE_FIRST: what is normed is the product, by weights of each head's own. NORM: 0 where that
// product is all. A work-item writes what it alone has read, so that `out` may be x.
#define silu(g) ((g) / (1.0f + exp(-(g))))
#define before(g) (GATE_FIRST ? silu(g) : 1.0f)
#define behind(g) (GATE_FIRST ? 1.0f : silu(g))

SLUICE_KERNEL any_f32_gated_norm(Bytes x, ulong x_stride, Bytes gate, ulong gate_stride,
                                 global const float* weight, BytesOut out, ulong out_stride,
                                 int head_dim, float eps, float gate_scale, float out_scale) {
  SLUICE_LOCAL_SUMS(parts);
  const ulong token = get_group_id(1), first = (ulong)get_group_id(0) * head_dim;
  const ulong at = token * x_stride + first, gate_at = token * gate_stride + first;
  const ulong to = token * out_stride + first;
  if (GATE_FIRST) weight += first;
  const int whole = head_dim / 16 * 16;
  float16 squares = 0.0f;
  float left = 0.0f;
  for (int i = get_local_id(0) * 16; NORM && i < whole; i += ITEMS * 16) {
    const float16 g = load16_act(gate, gate_at + i) * gate_scale;
    const float16 v = load16_act(x, at + i) * before(g);
    squares += v * v;
  }
  for (int i = whole + get_local_id(0); NORM && i < head_dim; i += ITEMS) {
    const float g = load_act(gate, gate_at + i) * gate_scale;
    const float v = load_act(x, at + i) * before(g);
    left += v * v;
  }
  const float total = group_sum(sum16(squares) + left, parts);
  const float inverse = out_scale * (NORM ? inverse_rms(total, head_dim, eps) : 1.0f);
  for (int i = get_local_id(0) * 16; i < whole; i += ITEMS * 16) {
    const float16 g = load16_act(gate, gate_at + i) * gate_scale;
    const float16 weights = NORM ? vload16(0, weight + i) : (float16)(1.0f);
    const float16 v = load16_act(x, at + i) * before(g) * inverse * weights;
    store16_act(out, to + i, v * behind(g));
  }
  for (int i = whole + get_local_id(0); i < head_dim; i += ITEMS) {
    const float g = load_act(gate, gate_at + i) * gate_scale;
    const float v = load_act(x, at + i) * before(g) * inverse * (NORM ? weight[i] : 1.0f);
    store_act(out, to + i, v * behind(g));
  }
}
