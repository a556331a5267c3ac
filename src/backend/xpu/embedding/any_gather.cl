#include "backend/xpu/pieces/base.cl"
// Rows by index, and tokens that the step before drew. -D ELEMENT: uint or ushort, of one size with
// the activations.

// Work-group (piece of PIECE elements, row). A row outside x gives all bits set, which is NaN
// in every type of activations.
SLUICE_KERNEL any_gather_rows(global const ELEMENT* x, global const int* rows, global ELEMENT* out,
                              int count, int width, ulong x_stride, ulong out_stride) {
  const ulong to = get_group_id(1) * out_stride;
  const int row = rows[get_group_id(1)];
  const bool inside = row >= 0 && row < count;
  global const ELEMENT* from = x + (inside ? row : 0) * x_stride;
  const int begin = get_group_id(0) * PIECE, end = min(width, begin + PIECE);
  for (int i = begin + get_local_id(0); i < end; i += ITEMS)
    out[to + i] = inside ? from[i] : (ELEMENT)~0u;
}

SLUICE_KERNEL any_resolve_tokens(global int* ids, global const int* previous, int count, int rows) {
  for (int i = get_local_id(0); i < count; i += ITEMS) {
    const int id = ids[i];
    if (id < 0 && -1 - id < rows) ids[i] = previous[-1 - id];
  }
}
