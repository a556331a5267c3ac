#include "backend/xpu/pieces/activate.cl"
#include "backend/xpu/pieces/element.cl"
#include "backend/xpu/pieces/reduce.cl"
// Activations, gated or alone (-D ACT, KIND as in pieces/activate.cl), the soft cap and what makes
// a gate sparse (-D ACT). Work-group (piece of PIECE elements, row), of the last one a row.

#ifdef KIND
SLUICE_KERNEL any_f32_gated_activation(Bytes gate_up, ulong stride, BytesOut out, ulong out_stride,
                                       int width, float gate_scale, float out_scale) {
  const ulong in = get_group_id(1) * stride, to = get_group_id(1) * out_stride;
  const int begin = get_group_id(0) * PIECE, end = min(width, begin + PIECE);
  for (int i = begin + get_local_id(0) * 16; i < end; i += ITEMS * 16) {
    if (i + 16 <= end) {
      const float16 v = activate_gate16(load16_act(gate_up, in + i) * gate_scale,
                                        load16_act(gate_up, in + width + i));
      store16_act(out, to + i, v * out_scale);
    } else {
      for (int j = i; j < end; ++j)
        store_act(out, to + j,
                  activate_gate(load_act(gate_up, in + j) * gate_scale,
                                load_act(gate_up, in + width + j)) *
                      out_scale);
    }
  }
}

SLUICE_KERNEL any_f32_plain_activation(BytesOut x, ulong stride, int width) {
  const ulong at = get_group_id(1) * stride;
  const int begin = get_group_id(0) * PIECE, end = min(width, begin + PIECE);
  for (int i = begin + get_local_id(0) * 16; i < end; i += ITEMS * 16) {
    if (i + 16 <= end) {
      store16_act(x, at + i, activate16(load16_act(x, at + i)));
    } else {
      for (int j = i; j < end; ++j) store_act(x, at + j, activate(load_act(x, at + j)));
    }
  }
}
#else
SLUICE_KERNEL any_f32_soft_cap(BytesOut x, ulong stride, int width, float cap) {
  const ulong at = get_group_id(1) * stride;
  const int begin = get_group_id(0) * PIECE, end = min(width, begin + PIECE);
  for (int i = begin + get_local_id(0) * 16; i < end; i += ITEMS * 16) {
    if (i + 16 <= end) {
      store16_act(x, at + i, cap * tanh(load16_act(x, at + i) / cap));
    } else {
      for (int j = i; j < end; ++j) store_act(x, at + j, cap * tanh(load_act(x, at + j) / cap));
    }
  }
}

SLUICE_KERNEL any_f32_gaussian_top_k(BytesOut x, ulong stride, int width, float deviations) {
  SLUICE_LOCAL_SUMS(parts);
  const ulong at = get_group_id(0) * stride;
  float sum = 0.0f, squares = 0.0f;
  for (int i = get_local_id(0); i < width; i += ITEMS) sum += load_act(x, at + i);
  const float mean = group_sum(sum, parts) / (float)width;
  for (int i = get_local_id(0); i < width; i += ITEMS) {
    const float centered = load_act(x, at + i) - mean;
    squares = fma(centered, centered, squares);
  }
  const float cutoff = deviations * sqrt(group_sum(squares, parts) / (float)width);
  for (int i = get_local_id(0); i < width; i += ITEMS) {
    const float above = load_act(x, at + i) - mean - cutoff;
    store_act(x, at + i, above < 0.0f ? 0.0f : above);
  }
}
#endif
