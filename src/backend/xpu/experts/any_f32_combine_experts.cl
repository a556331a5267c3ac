#include "backend/xpu/pieces/element.cl"
// What the experts of a token made of it, added up. -D ACT (type of residual and out), PIECE,
// RESIDUAL (0, 1). Work-group (piece of PIECE elements, token).
SLUICE_KERNEL any_f32_combine_experts(Bytes y, ulong y_stride, global const float* weights,
                                      ulong weights_stride, global const int* places,
                                      ulong places_stride, Bytes residual, ulong residual_stride,
                                      BytesOut out, ulong out_stride, int top_k, int width) {
  const ulong token = get_group_id(1);
  weights += token * weights_stride;
  places += token * places_stride;
  const ulong residual_at = token * residual_stride, to = token * out_stride;
  const int begin = get_group_id(0) * PIECE, end = min(width, begin + PIECE);
  for (int i = begin + get_local_id(0) * 16; i < end; i += ITEMS * 16) {
    if (i + 16 <= end) {
      float16 sum = 0.0f;
      for (int c = 0; c < top_k; ++c)
        sum = fma((float16)(weights[c]), load16_f32(y, (ulong)places[c] * y_stride + i), sum);
      if (RESIDUAL) sum += load16_act(residual, residual_at + i);
      store16_act(out, to + i, sum);
      continue;
    }
    for (int j = i; j < end; ++j) {
      float sum = 0.0f;
      for (int c = 0; c < top_k; ++c)
        sum = fma(weights[c], load_f32(y, (ulong)places[c] * y_stride + j), sum);
      if (RESIDUAL) sum += load_act(residual, residual_at + j);
      store_act(out, to + j, sum);
    }
  }
}
