#include "backend/xpu/pieces/f32_products.cl"
// grouped_linear over the experts' weights, one behind the other, each packed 16 rows of W
// together. A work-item does 16 outputs of up to ROWS places, expert by expert, so an output is
// made by the steps of any_f32_linear. -D as in pieces/f32_products.cl, OUT (type), BIAS (0, 1),
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
                     int n, int K, Bytes all_bias, ulong expert_bias_bytes) {                     \
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
      Bytes bias = all_bias + (ulong)expert * expert_bias_bytes;                                  \
      EACH(t, ROWS)                                                                               \
      if (place + t < stop) finish(sum[t], bias, 0, 0, out, (place + t) * out_stride, first, n);  \
      place = stop;                                                                               \
    }                                                                                             \
  }

// The products of heads: work-group (ITEMS groups of 16 outputs, ROWS rows, head).
#define SLUICE_HEADS_LINEAR(name, ROWS)                                                        \
  SLUICE_KERNEL name(Bytes x, ulong x_stride, ulong x_step, Bytes weight, ulong group_bytes,   \
                     ulong head_bytes, Bytes all_scales, ulong head_scale_bytes, BytesOut out, \
                     ulong out_stride, ulong out_step, int n, int K, int rows) {               \
    const int first = (int)get_global_id(0) * 16;                                              \
    if (first >= n) return;                                                                    \
    const int row = (int)get_group_id(1) * ROWS;                                               \
    const ulong head = get_group_id(2);                                                        \
    Bytes w = weight + head * head_bytes + get_global_id(0) * group_bytes;                     \
    Bytes scales = all_scales + head * head_scale_bytes;                                       \
    (void)scales;                                                                              \
    ulong at[ROWS];                                                                            \
    float16 sum[ROWS];                                                                         \
    EACH(t, ROWS) {                                                                            \
      at[t] = (ulong)min(row + t, rows - 1) * x_stride + head * x_step;                        \
      sum[t] = 0.0f;                                                                           \
    }                                                                                          \
    SLUICE_PRODUCTS(ROWS)                                                                      \
    EACH(t, ROWS)                                                                              \
    if (row + t < rows)                                                                        \
      finish(sum[t], 0, 0, 0, out, (row + t) * out_stride + head * out_step, first, n);        \
  }

SLUICE_GROUPED_LINEAR(any_f32_grouped_linear_1, 1)
SLUICE_GROUPED_LINEAR(any_f32_grouped_linear_4, 4)
SLUICE_HEADS_LINEAR(any_f32_heads_linear_1, 1)
SLUICE_HEADS_LINEAR(any_f32_heads_linear_4, 4)
