#include "backend/xpu/pieces/f32_products.cl"
// grouped_linear over the experts' weights, one behind the other, each packed 16 rows of W
// together. A work-item does 16 outputs of up to ROWS places, expert by expert, so an output is
// made by the steps of any_f32_linear. -D as in pieces/f32_products.cl, OUT (type), BIAS=0,
// RESIDUAL=0.

// The expert that has a place: the last that begins at it or before it.
int expert_of(global const int* starts, int experts, int place) {
  int low = 0, high = experts;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (starts[middle] <= place) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

// Work-group (ITEMS groups of 16 outputs, ROWS places).
#define SLUICE_GROUPED_LINEAR(name, ROWS)                                                         \
  SLUICE_KERNEL name(Bytes x, ulong x_stride, global const int* tokens, global const int* starts, \
                     int experts, Bytes weight, ulong group_bytes, ulong expert_bytes,            \
                     Bytes all_scales, ulong expert_scale_bytes, BytesOut out, ulong out_stride,  \
                     int n, int K) {                                                              \
    const int first = (int)get_global_id(0) * 16;                                                 \
    if (first >= n) return;                                                                       \
    int place = (int)get_group_id(1) * ROWS;                                                      \
    const int end = min(place + ROWS, starts[experts]);                                           \
    while (place < end) {                                                                         \
      const int expert = expert_of(starts, experts, place);                                       \
      const int stop = min(end, starts[expert + 1]);                                              \
      Bytes w = weight + (ulong)expert * expert_bytes + get_global_id(0) * group_bytes;           \
      Bytes scales = all_scales + (ulong)expert * expert_scale_bytes;                             \
      (void)scales;                                                                               \
      ulong at[ROWS];                                                                             \
      float16 sum[ROWS];                                                                          \
      EACH(t, ROWS) {                                                                             \
        const int from = min(place + t, stop - 1);                                                \
        at[t] = (ulong)(tokens == 0 ? from : tokens[from]) * x_stride;                            \
        sum[t] = 0.0f;                                                                            \
      }                                                                                           \
      SLUICE_PRODUCTS(ROWS)                                                                       \
      EACH(t, ROWS)                                                                               \
      if (place + t < stop) finish(sum[t], 0, 0, 0, out, (place + t) * out_stride, first, n);     \
      place = stop;                                                                               \
    }                                                                                             \
  }

SLUICE_GROUPED_LINEAR(any_f32_grouped_linear_1, 1)
SLUICE_GROUPED_LINEAR(any_f32_grouped_linear_4, 4)
