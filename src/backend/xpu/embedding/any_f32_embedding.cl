#include "backend/xpu/pieces/dequantize.cl"
// -D ACT, TABLE (a format's name), ADD (0, 1: to what is there), BEYOND (0, 1: ids from `vocab` on
// have the first row), PIECE: elements of a row that a work-group does.
#define table_value SLUICE_CAT(value_, TABLE)

// Work-group (piece, token). An id outside the table gives NaN.
SLUICE_KERNEL any_f32_embedding(global const int* ids, Bytes table, BytesOut out, ulong row_bytes,
                                int vocab, int hidden, ulong out_stride, float scale) {
  const ulong token = get_group_id(1), to = token * out_stride;
  const int begin = get_group_id(0) * PIECE, end = min(hidden, begin + PIECE);
  const int id = BEYOND && ids[token] >= vocab ? 0 : ids[token];
  Bytes row = table + (id >= 0 && id < vocab ? id : 0) * row_bytes;
  const float factor = id >= 0 && id < vocab ? scale : NAN;
  for (int i = begin + get_local_id(0); i < end; i += ITEMS) {
    const float value = factor * table_value(row, i);
    store_act(out, to + i, ADD ? value + load_act(out, to + i) : value);  // -0 stays what it is
  }
}
