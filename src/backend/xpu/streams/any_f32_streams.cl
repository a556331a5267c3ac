#include "backend/xpu/pieces/element.cl"
#include "backend/xpu/pieces/reduce.cl"
// Several residual streams side by side in a row. -D ACT, STREAMS: how many, PIECE, ADD (of
// predict), SCALED (of correct), MEAN (of level: into out). Predict and correct: work-group (piece
// of PIECE elements, row); level: a work-group per row.

// mix[row] = sum over k of coefficients[row, k] * tanh(routes[k]), of so many rows.
void mix_rows(global const float* coefficients, ulong step, global const float* routes, int rows,
              float* mix) {
  float bent[STREAMS];
  for (int k = 0; k < STREAMS; ++k) bent[k] = tanh(routes[k]);
  for (int row = 0; row < rows; ++row) {
    float sum = 0.0f;
    for (int k = 0; k < STREAMS; ++k) sum = fma(coefficients[row * step + k], bent[k], sum);
    mix[row] = sum;
  }
}

SLUICE_KERNEL any_f32_predict_streams(BytesOut streams, ulong stride, Bytes added,
                                      ulong added_stride, global const float* routes,
                                      ulong routes_stride, global const float* coefficients,
                                      ulong step, BytesOut out, ulong out_stride, int width) {
  const ulong row = get_group_id(1), at = row * stride;
  const int begin = get_group_id(0) * PIECE, end = min(width, begin + PIECE);
  float mix[STREAMS * STREAMS];
  mix_rows(coefficients, step, routes + row * routes_stride, STREAMS * STREAMS, mix);
  for (int i = begin + get_local_id(0); i < end; i += ITEMS) {
    float before[STREAMS];
    for (int j = 0; j < STREAMS; ++j) {
      before[j] = load_act(streams, at + (ulong)j * width + i);
      if (ADD && j > 0) before[j] += load_act(added, row * added_stride + i);
    }
    for (int n = 0; n < STREAMS; ++n) {
      float sum = before[n];
      for (int j = 0; j < STREAMS; ++j) sum = fma(before[j], mix[n * STREAMS + j], sum);
      store_act(streams, at + (ulong)n * width + i, sum);
      if (n == 0) store_act(out, row * out_stride + i, sum);
    }
  }
}

SLUICE_KERNEL any_f32_correct_streams(BytesOut streams, ulong stride, Bytes x, ulong x_stride,
                                      global const float* routes, ulong routes_stride,
                                      global const float* coefficients, ulong step,
                                      global const float* scale, BytesOut out, ulong out_stride,
                                      int width) {
  const ulong row = get_group_id(1), at = row * stride;
  const int begin = get_group_id(0) * PIECE, end = min(width, begin + PIECE);
  float mix[STREAMS];
  mix_rows(coefficients, step, routes + row * routes_stride, STREAMS, mix);
  for (int i = begin + get_local_id(0); i < end; i += ITEMS) {
    const float change = load_act(x, row * x_stride + i) - load_act(streams, at + i);
    for (int n = 0; n < STREAMS; ++n) {
      const ulong index = at + (ulong)n * width + i;
      const float sum = round_act(fma(change, 1.0f + mix[n], load_act(streams, index)));
      store_act(streams, index, sum);
      if (n == 0) store_act(out, row * out_stride + i, SCALED ? sum * scale[i] : sum);
    }
  }
}

SLUICE_KERNEL any_f32_level_streams(BytesOut streams, ulong stride, BytesOut out, ulong out_stride,
                                    int width, float mean_square_min) {
  SLUICE_LOCAL_SUMS(parts);
  const ulong row = get_group_id(0), at = row * stride;
  float factors[STREAMS], first = 0.0f;
  for (int n = 0; n < STREAMS; ++n) {
    float squares = 0.0f;
    for (int i = get_local_id(0); i < width; i += ITEMS) {
      const float v = load_act(streams, at + (ulong)n * width + i);
      squares = fma(v, v, squares);
    }
    const float mean = group_sum(squares, parts) / (float)width;
    if (n == 0) first = sqrt(mean);
    factors[n] = n == 0 ? 1.0f : first / sqrt(fmax(mean, mean_square_min));
  }
  for (int i = get_local_id(0); i < width; i += ITEMS) {
    float sum = 0.0f;
    for (int n = 0; n < STREAMS; ++n) {
      const ulong index = at + (ulong)n * width + i;
      const float v = load_act(streams, index) * factors[n];
      sum += v;
      if (!MEAN && n > 0) store_act(streams, index, v);
    }
    if (MEAN) store_act(out, row * out_stride + i, sum / (float)STREAMS);
  }
}
