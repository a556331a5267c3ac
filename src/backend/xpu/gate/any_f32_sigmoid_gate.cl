#include "backend/xpu/pieces/element.cl"
// x times the sigmoid of a gate, in place. -D ACT, PIECE. Work-group (piece of PIECE elements,
// row).
SLUICE_KERNEL any_f32_sigmoid_gate(BytesOut x, ulong x_stride, Bytes gate, ulong gate_stride,
                                   int width) {
  const ulong at = get_group_id(1) * x_stride, gate_at = get_group_id(1) * gate_stride;
  const int begin = get_group_id(0) * PIECE, end = min(width, begin + PIECE);
  for (int i = begin + get_local_id(0) * 16; i < end; i += ITEMS * 16) {
    if (i + 16 <= end) {
      store16_act(x, at + i, load16_act(x, at + i) / (1.0f + exp(-load16_act(gate, gate_at + i))));
    } else {
      for (int j = i; j < end; ++j)
        store_act(x, at + j, load_act(x, at + j) / (1.0f + exp(-load_act(gate, gate_at + j))));
    }
  }
}
