#include "backend/xpu/pieces/f32_products.cl"
// Linear over weights packed 16 rows of W together. A work-item does 16 outputs of several rows of
// x. -D as in pieces/f32_products.cl, OUT (type), BIAS, RESIDUAL (0, 1).
//
// Work-group (ITEMS groups of 16 outputs, ROWS rows of x).
#define SLUICE_LINEAR(name, ROWS)                                                                  \
  SLUICE_KERNEL name(Bytes x, ulong x_stride, Bytes weight, ulong group_bytes, Bytes bias,         \
                     Bytes residual, ulong residual_stride, BytesOut out, ulong out_stride, int n, \
                     int m, int K, Bytes scales, global const int* order) {                        \
    const int first = (int)get_global_id(0) * 16;                                                  \
    if (first >= n) return;                                                                        \
    (void)scales, (void)order;                                                                     \
    Bytes w = weight + get_global_id(0) * group_bytes;                                             \
    const int row = (int)get_group_id(1) * ROWS;                                                   \
    ulong at[ROWS];                                                                                \
    float16 sum[ROWS];                                                                             \
    EACH(t, ROWS) {                                                                                \
      at[t] = (ulong)min(row + t, m - 1) * x_stride;                                               \
      sum[t] = 0.0f;                                                                               \
    }                                                                                              \
    SLUICE_PRODUCTS(ROWS)                                                                          \
    EACH(t, ROWS)                                                                                  \
    if (row + t < m)                                                                               \
      finish(sum[t], bias, residual, (row + t) * residual_stride, out, (row + t) * out_stride,     \
             first, n);                                                                            \
  }

SLUICE_LINEAR(any_f32_linear_1, 1)
SLUICE_LINEAR(any_f32_linear_4, 4)
