#include "backend/xpu/pieces/int8_rows.cl"
// Linear as ops/linear.h has it for block formats, to the bit: activations rounded to int8, exact
// integer sums, then scales and minimums, k ascending. One work-item is a work-group: it rounds its
// rows of x, then does groups of 16 outputs one after another. -D as in pieces/int8_rows.cl, OUT,
// BIAS, RESIDUAL (0, 1).
#define SLUICE_INT8_LINEAR(name, ROWS)                                                             \
  SLUICE_KERNEL name(BytesOut x, ulong x_stride, Bytes weight, ulong group_bytes, Bytes bias,      \
                     Bytes residual, ulong residual_stride, BytesOut out, ulong out_stride, int n, \
                     int m, int K, int groups_each) {                                              \
    const int row = (int)get_group_id(1) * ROWS;                                                   \
    const From from = {0, 0, 0, 0, 0.0f};                                                          \
    Rounded rows[ROWS];                                                                            \
    for (int t = 0; t < ROWS; ++t)                                                                 \
      round_row(x, (ulong)min(row + t, m - 1) * x_stride, &from, 0, false, K, &rows[t]);           \
    const int begin = (int)get_group_id(0) * groups_each;                                          \
    const int end = min(begin + groups_each, (n + 15) / 16);                                       \
    for (int group = begin; group < end; ++group) {                                                \
      Bytes w = weight + group * group_bytes;                                                      \
      SLUICE_INT8_PRODUCTS(ROWS)                                                                   \
      EACH(t, ROWS)                                                                                \
      if (row + t < m)                                                                             \
        finish(acc[t], bias, residual, (row + t) * residual_stride, out, (row + t) * out_stride,   \
               group * 16, n);                                                                     \
    }                                                                                              \
  }

SLUICE_INT8_LINEAR(any_int8_linear_1, 1)
SLUICE_INT8_LINEAR(any_int8_linear_4, 4)
