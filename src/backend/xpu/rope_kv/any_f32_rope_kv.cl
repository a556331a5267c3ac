#include "backend/xpu/pieces/element.cl"
#include "backend/xpu/pieces/reduce.cl"
// RoPE and KV write, a work-group per (head, token). -D ACT, KV (f32, f16, bf16, f8, i8),
// HEAD_DIM_MAX, CODE_MAX: the largest code of a format with scales, else 0. `keep`: rotated heads
// stay in qkv, else Q goes to q_out.
#define store_kv SLUICE_CAT(store_, KV)

// Element i of a head, rotated and rounded to the activation type. No angles: the position lies
// outside the table, and NaN stands for them.
float rotated(Bytes row, ulong at, global const float* angles, int rotary, int interleaved, int i) {
  if (i >= rotary) return load_act(row, at + i);
  const int pairs = rotary / 2;
  const int pair = interleaved ? i / 2 : i % pairs;
  const int first = interleaved ? pair * 2 : pair;
  const int second = interleaved ? first + 1 : first + pairs;
  const float cosine = angles == 0 ? NAN : angles[pair];
  const float sine = angles == 0 ? NAN : angles[pairs + pair];
  const float a = load_act(row, at + first), b = load_act(row, at + second);
  return round_act(i == first ? a * cosine - b * sine : a * sine + b * cosine);
}

// One row of K or V with its scale, where the format has one.
void write_kv(BytesOut cache, ulong at, global float* scale, local const float* head, int width,
              local float* parts) {
#if CODE_MAX > 0
  float largest = 0.0f;
  bool finite = true;
  for (int i = get_local_id(0); i < width; i += ITEMS) {
    finite = finite && isfinite(head[i]);
    largest = fmax(largest, fabs(head[i]));
  }
  largest = group_max(finite ? largest : INFINITY, parts);
  const float factor = isfinite(largest) ? largest / (float)CODE_MAX : NAN;
  if (get_local_id(0) == 0) *scale = factor;
  for (int i = get_local_id(0); i < width; i += ITEMS)
    store_kv(cache, at + i, factor > 0.0f ? head[i] / factor : 0.0f);
#else
  for (int i = get_local_id(0); i < width; i += ITEMS) store_kv(cache, at + i, head[i]);
#endif
}

SLUICE_KERNEL any_f32_rope_kv(BytesOut qkv, ulong stride, global const int* positions,
                              global const float* table, global const int* slots, BytesOut q_out,
                              ulong q_stride, BytesOut k, BytesOut v, global float* k_scale,
                              global float* v_scale, ulong k_stride, ulong v_stride,
                              ulong k_scale_stride, ulong v_scale_stride, int q_heads, int kv_heads,
                              int head_dim, int v_dim, int rotary, int interleaved, int keep,
                              int block_tokens, int positions_max, ulong slots_max) {
  local float head[HEAD_DIM_MAX];
#if ITEMS == 1
  local float* parts = 0;
#else
  local float parts[ITEMS];
#endif
  const int h = get_group_id(0);
  const ulong token = get_group_id(1), at = token * stride + (ulong)h * head_dim;
  const bool is_q = h < q_heads, is_v = h >= q_heads + kv_heads;
  global const float* angles = 0;
  if (rotary > 0) {
    const int position = positions[token];
    if (position >= 0 && position < positions_max) angles = table + (ulong)position * rotary;
  }
  for (int i = get_local_id(0); i < head_dim; i += ITEMS)
    head[i] = is_v ? load_act(qkv, at + i) : rotated(qkv, at, angles, rotary, interleaved, i);
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int i = get_local_id(0); i < head_dim && !is_v; i += ITEMS) {
    if (keep) store_act(qkv, at + i, head[i]);
    if (!keep && is_q) store_act(q_out, token * q_stride + (ulong)h * head_dim + i, head[i]);
  }
  const int slot = slots[token];
  if (is_q || slot < 0 || (ulong)slot >= slots_max) return;
  const ulong block = slot / block_tokens;
  const ulong inner = (ulong)((h - q_heads) % kv_heads) * block_tokens + slot % block_tokens;
  if (!is_v) {
    write_kv(k, block * k_stride + inner * head_dim, k_scale + block * k_scale_stride + inner, head,
             head_dim, parts);
  } else if (v_dim > 0) {
    write_kv(v, block * v_stride + inner * v_dim, v_scale + block * v_scale_stride + inner, head,
             v_dim, parts);
  }
}
