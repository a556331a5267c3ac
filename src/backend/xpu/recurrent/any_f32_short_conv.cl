#include "backend/xpu/pieces/element.cl"
#include "backend/xpu/pieces/sequence.cl"
// A causal convolution of each channel over a sequence's tokens, with SiLU or between gates. -D
// ACT, PIECE: channels of a work-group, TAPS, GATED, BIAS. First the outputs, of all tokens at
// once, then the states, which are read until then.

// Row `row` of a sequence's state, then of its tokens; `old`: its state, 0 for zeros.
float conv_row(Bytes x, ulong x_stride, global const float* old, int begin, int row, int channels,
               int c) {
  if (row >= TAPS - 1) {
    const ulong at = (ulong)(begin + row - (TAPS - 1)) * x_stride + c;
    return GATED ? load_act(x, at) * load_act(x, at + 2 * channels) : load_act(x, at);
  }
  return old == 0 ? 0.0f : old[(ulong)row * channels + c];
}

// Work-group (piece, token).
SLUICE_KERNEL any_f32_short_conv(Bytes x, ulong x_stride, global const float* weight,
                                 ulong weight_stride, global const float* bias,
                                 global const float* state, ulong block_stride,
                                 global const int* query_start, global const int* context,
                                 global const int* block_table, ulong table_stride, BytesOut out,
                                 ulong out_stride, int channels, int sequences, int table_width,
                                 int block_tokens, int blocks, int states, int rows) {
  const int t = get_group_id(1);
  const int s = sequence_of(query_start, sequences, t);
  if (s < 0) return;  // padding
  const StateTable table = {query_start,  context,      block_table,
                            table_stride, block_stride, (ulong)(TAPS - 1) * channels,
                            table_width,  block_tokens, blocks,
                            states,       rows};
  const StateStep step = state_step(&table, s);
  global const float* old = step.read < 0 ? 0 : state + step.read;
  const int begin = get_group_id(0) * PIECE, end = min(channels, begin + PIECE);
  for (int c = begin + get_local_id(0); c < end; c += ITEMS) {
    if (step.write < 0) {
      store_act(out, t * out_stride + c, 0.0f);
      continue;
    }
    float sum = BIAS ? bias[c] : 0.0f;
    for (int j = 0; j < TAPS; ++j) {
      const float value = conv_row(x, x_stride, old, step.begin, t - step.begin + j, channels, c);
      sum = fma(value, weight[c * weight_stride + j], sum);
    }
    const float gated =
        GATED ? sum * load_act(x, t * x_stride + channels + c) : sum / (1.0f + exp(-sum));
    store_act(out, t * out_stride + c, gated);
  }
}

// Work-group (piece, sequence).
SLUICE_KERNEL any_f32_short_conv_state(Bytes x, ulong x_stride, global float* state,
                                       ulong block_stride, global const int* query_start,
                                       global const int* context, global const int* block_table,
                                       ulong table_stride, int channels, int table_width,
                                       int block_tokens, int blocks, int states, int rows) {
  const StateTable table = {query_start,  context,      block_table,
                            table_stride, block_stride, (ulong)(TAPS - 1) * channels,
                            table_width,  block_tokens, blocks,
                            states,       rows};
  const StateStep step = state_step(&table, get_group_id(1));
  if (step.write < 0) return;
  global const float* old = step.read < 0 ? 0 : state + step.read;
  const int begin = get_group_id(0) * PIECE, end = min(channels, begin + PIECE);
  // The old state may lie where the last one goes. A row moves towards the first, so that none is
  // read after it was written.
  for (int t = 0; t < step.tokens; ++t) {
    if (!keeps(&table, &step, t)) continue;
    global float* to = state + place_of(&table, &step, t);
    for (int c = begin + get_local_id(0); c < end; c += ITEMS) {
      for (int j = 0; j < TAPS - 1; ++j)
        to[(ulong)j * channels + c] =
            conv_row(x, x_stride, old, step.begin, t + 1 + j, channels, c);
    }
  }
}
