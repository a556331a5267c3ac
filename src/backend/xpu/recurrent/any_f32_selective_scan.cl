#include "backend/xpu/pieces/element.cl"
#include "backend/xpu/pieces/sequence.cl"
// The recurrence of Mamba, a work-item for each channel of a sequence, which goes through the
// sequence's tokens in order with the channel's state in registers. -D ACT, PIECE: channels of a
// work-group, SIZE: numbers of a channel's state. Work-group (piece, sequence).

SLUICE_KERNEL any_f32_selective_scan(Bytes x, ulong x_stride, Bytes dt, ulong dt_stride, Bytes bc,
                                     ulong bc_stride, global const float* dt_bias,
                                     global const float* a, ulong a_stride,
                                     global const float* skip, global float* state,
                                     ulong block_stride, global const int* query_start,
                                     global const int* context, global const int* block_table,
                                     ulong table_stride, BytesOut out, ulong out_stride,
                                     int channels, int table_width, int block_tokens, int blocks,
                                     int states, int rows) {
  const StateTable table = {
      query_start, context,      block_table, table_stride, block_stride, (ulong)SIZE * channels,
      table_width, block_tokens, blocks,      states,       rows};
  const StateStep step = state_step(&table, get_group_id(1));
  const int begin = get_group_id(0) * PIECE, end = min(channels, begin + PIECE);
  for (int c = begin + get_local_id(0); c < end; c += ITEMS) {
    if (step.write < 0) {
      for (int t = 0; t < step.tokens; ++t) store_act(out, (step.begin + t) * out_stride + c, 0.0f);
      continue;
    }
    float s[SIZE], rates[SIZE];
    for (int i = 0; i < SIZE; ++i) {
      rates[i] = a[c * a_stride + i];
      s[i] = step.read < 0 ? 0.0f : state[step.read + (ulong)i * channels + c];
    }
    const float bias = dt_bias[c], through = skip[c];
    for (int t = 0; t < step.tokens; ++t) {
      const ulong row = step.begin + t;
      const float sum_dt = load_act(dt, row * dt_stride + c) + bias;
      const float size = fmax(sum_dt, 0.0f) + log1p(exp(-fabs(sum_dt)));
      const float value = load_act(x, row * x_stride + c), learnt = size * value;
      float sum = through * value;
      for (int i = 0; i < SIZE; ++i) {
        s[i] = fma(load_act(bc, row * bc_stride + i), learnt, s[i] * exp(size * rates[i]));
        sum = fma(load_act(bc, row * bc_stride + SIZE + i), s[i], sum);
      }
      store_act(out, row * out_stride + c, sum);
      if (!keeps(&table, &step, t)) continue;
      global float* kept = state + place_of(&table, &step, t) + c;
      for (int i = 0; i < SIZE; ++i) kept[(ulong)i * channels] = s[i];
    }
  }
}
