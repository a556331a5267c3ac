#include "backend/xpu/pieces/element.cl"
// A residual plus x times the sigmoid of the row's gate. -D ACT, PIECE. Work-group (piece of PIECE
// elements, row).
SLUICE_KERNEL any_f32_sigmoid_gate_scale_add(Bytes x, ulong x_stride, global const float* gate,
                                             ulong gate_stride, Bytes residual,
                                             ulong residual_stride, BytesOut out, ulong out_stride,
                                             int width) {
  const ulong row = get_group_id(1);
  const ulong at = row * x_stride, from = row * residual_stride, to = row * out_stride;
  const float factor = 1.0f / (1.0f + exp(-gate[row * gate_stride]));
  const int begin = get_group_id(0) * PIECE, end = min(width, begin + PIECE);
  for (int i = begin + get_local_id(0) * 16; i < end; i += ITEMS * 16) {
    if (i + 16 <= end) {
      store16_act(out, to + i, load16_act(residual, from + i) + factor * load16_act(x, at + i));
    } else {
      for (int j = i; j < end; ++j)
        store_act(out, to + j, load_act(residual, from + j) + factor * load_act(x, at + j));
    }
  }
}
