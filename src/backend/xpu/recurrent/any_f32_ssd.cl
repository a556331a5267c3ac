#include "backend/xpu/pieces/columns.cl"
#include "backend/xpu/pieces/reduce.cl"
#include "backend/xpu/pieces/sequence.cl"
// The recurrence of Mamba-2, a work-group per (slice of columns, value head, sequence), which goes
// through the sequence's tokens in order with its part of the state in registers. -D ACT, DK:
// k_head_dim, COLS, PARTS as in pieces/columns.cl, STEPS, SKIP.

SLUICE_KERNEL any_f32_ssd(Bytes vkq, ulong vkq_stride, Bytes dt, ulong dt_stride,
                          global const float* dt_bias, global const float* a,
                          global const float* skip, global float* state, ulong block_stride,
                          global const int* query_start, global const int* context,
                          global const int* block_table, ulong table_stride, BytesOut out,
                          ulong out_stride, int k_heads, int v_heads, int v_dim, int table_width,
                          int block_tokens, int blocks, int states, int rows, float dt_scale) {
  local float q[ROWS * PARTS], k[ROWS * PARTS];
  SLUICE_LOCAL_COLUMNS(column_parts);
  const StateTable table = {query_start,  context,      block_table,
                            table_stride, block_stride, (ulong)v_heads * DK * v_dim,
                            table_width,  block_tokens, blocks,
                            states,       rows};
  const StateStep step = state_step(&table, get_group_id(2));
  const int item = get_local_id(0), part = item / COLUMN_ITEMS, head = get_group_id(1);
  const int column = (get_group_id(0) * COLUMN_ITEMS + item % COLUMN_ITEMS) * COLS;
  const bool mine = column < v_dim;
  const ulong v_at = (ulong)head * v_dim + column, to = step.begin * out_stride + v_at;
  if (step.write < 0) {
    for (int t = 0; t < step.tokens && mine && part == 0; ++t)
      store_columns_act(out, to + t * out_stride, (Columns)(0.0f));
    return;
  }
  const ulong at = (ulong)head * DK * v_dim + column;
  Columns s[ROWS];
  for (int r = 0; r < ROWS; ++r) {
    const int i = part + r * PARTS;
    s[r] = 0.0f;
    if (i < DK && mine && step.read >= 0)
      s[r] = load_columns(state + step.read + at + (ulong)i * v_dim);
  }
  for (int i = DK + item; i < ROWS * PARTS; i += ITEMS) q[i] = k[i] = 0.0f;
  const ulong k_at = (ulong)v_heads * v_dim + (ulong)(head / (v_heads / k_heads)) * DK;
  const float rate = a[head];
  for (int t = 0; t < step.tokens; ++t) {
    const ulong row = (step.begin + t) * vkq_stride;
    for (int i = item; i < DK; i += ITEMS) {
      k[i] = load_act(vkq, row + k_at + i);
      q[i] = load_act(vkq, row + k_at + (ulong)k_heads * DK + i);
    }
    group_barrier();
    float size = 1.0f;
    if (STEPS) {
      const float sum =
          load_act(dt, (step.begin + t) * dt_stride + head) * dt_scale + dt_bias[head];
      size = fmax(sum, 0.0f) + log1p(exp(-fabs(sum)));
    }
    const float decay = exp(size * rate);
    Columns v = 0.0f, sum = 0.0f;
    if (mine) v = load_columns_act(vkq, row + v_at);
    const Columns kept = v * size;
    for (int r = 0; r < ROWS; ++r) {
      s[r] = fma((Columns)(k[part + r * PARTS]), kept, s[r] * decay);
      sum = fma(s[r], (Columns)(q[part + r * PARTS]), sum);
    }
    // Behind its barriers q and k are free for the next token.
    sum = sum_parts(sum, column_parts);
    if (SKIP) sum = fma(v, (Columns)(skip[head]), sum);
    if (mine && part == 0) store_columns_act(out, to + t * out_stride, sum);
    if (!keeps(&table, &step, t)) continue;
    global float* kept_state = state + place_of(&table, &step, t) + at;
    for (int r = 0; r < ROWS; ++r) {
      const int i = part + r * PARTS;
      if (i < DK && mine) store_columns(s[r], kept_state + (ulong)i * v_dim);
    }
  }
}
