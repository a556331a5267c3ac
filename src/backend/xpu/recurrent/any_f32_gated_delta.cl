#include "backend/xpu/pieces/columns.cl"
#include "backend/xpu/pieces/reduce.cl"
#include "backend/xpu/pieces/sequence.cl"
// The gated delta rule, a work-group per (slice of columns, value head, sequence), which goes
// through the sequence's tokens in order with its part of the state in registers. -D ACT, DK:
// k_head_dim, COLS, PARTS as in pieces/columns.cl.

// Loads a head's vector divided by its length, times `scale`. Reached by all of the group; what
// lies behind the vector stays as it is. The caller waits.
void load_unit(Bytes row, ulong at, float scale, local float* unit, local float* parts) {
  float squares = 0.0f;
  for (int i = get_local_id(0); i < DK; i += ITEMS) {
    const float value = load_act(row, at + i);
    squares = fma(value, value, squares);
    unit[i] = value;
  }
  const float factor = 1.0f / sqrt(group_sum(squares, parts) + 1e-6f) * scale;
  for (int i = get_local_id(0); i < DK; i += ITEMS) unit[i] *= factor;
}

SLUICE_KERNEL any_f32_gated_delta(Bytes qkv, ulong qkv_stride, Bytes ba, ulong ba_stride,
                                  global const float* dt_bias, global const float* a_log,
                                  global float* state, ulong block_stride,
                                  global const int* query_start, global const int* context,
                                  global const int* block_table, ulong table_stride, BytesOut out,
                                  ulong out_stride, int k_heads, int v_heads, int v_dim,
                                  int table_width, int block_tokens, int blocks, int states,
                                  int rows) {
  local float q[ROWS * PARTS], k[ROWS * PARTS];
  SLUICE_LOCAL_COLUMNS(column_parts);
#if ITEMS == 1
  local float* parts = 0;
#else
  local float parts[ITEMS];
#endif
  const StateTable table = {query_start,  context,      block_table,
                            table_stride, block_stride, (ulong)v_heads * DK * v_dim,
                            table_width,  block_tokens, blocks,
                            states,       rows};
  const StateStep step = state_step(&table, get_group_id(2));
  const int item = get_local_id(0), part = item / COLUMN_ITEMS, head = get_group_id(1);
  const int column = (get_group_id(0) * COLUMN_ITEMS + item % COLUMN_ITEMS) * COLS;
  const bool mine = column < v_dim;
  const ulong to = step.begin * out_stride + (ulong)head * v_dim + column;
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
  const int k_head = head / (v_heads / k_heads);
  const float rate = exp(a_log[head]), scale = 1.0f / sqrt((float)DK);
  for (int t = 0; t < step.tokens; ++t) {
    const ulong row = (step.begin + t) * qkv_stride, gates = (step.begin + t) * ba_stride;
    load_unit(qkv, row + (ulong)k_head * DK, scale, q, parts);
    load_unit(qkv, row + (ulong)(k_heads + k_head) * DK, 1.0f, k, parts);
    group_barrier();
    const float beta = 1.0f / (1.0f + exp(-load_act(ba, gates + head)));
    const float a = load_act(ba, gates + v_heads + head) + dt_bias[head];
    const float decay = exp(-rate * (fmax(a, 0.0f) + log1p(exp(-fabs(a)))));
    Columns v = 0.0f, held = 0.0f, sum = 0.0f;
    if (mine)
      v = load_columns_act(qkv, row + (ulong)2 * k_heads * DK + (ulong)head * v_dim + column);
    for (int r = 0; r < ROWS; ++r) {
      s[r] *= decay;
      held = fma(s[r], (Columns)(k[part + r * PARTS]), held);
    }
    const Columns delta = (v - sum_parts(held, column_parts)) * beta;
    for (int r = 0; r < ROWS; ++r) {
      s[r] = fma(delta, (Columns)(k[part + r * PARTS]), s[r]);
      sum = fma(s[r], (Columns)(q[part + r * PARTS]), sum);
    }
    // Behind its barriers q and k are free for the next token.
    sum = sum_parts(sum, column_parts);
    if (mine && part == 0) store_columns_act(out, to + t * out_stride, sum);
    if (!keeps(&table, &step, t)) continue;
    global float* kept = state + place_of(&table, &step, t) + at;
    for (int r = 0; r < ROWS; ++r) {
      const int i = part + r * PARTS;
      if (i < DK && mine) store_columns(s[r], kept + (ulong)i * v_dim);
    }
  }
}
