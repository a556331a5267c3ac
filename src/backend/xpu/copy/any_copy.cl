// Rows of units from one place of the device to another: work-group (piece, row).
#define SLUICE_COPY(name, unit)                                                                 \
  __attribute__((reqd_work_group_size(1, 1, 1))) kernel void name(                              \
      global unit* restrict to, global const unit* restrict from, ulong width, ulong to_stride, \
      ulong from_stride, ulong piece) {                                                         \
    const ulong row = get_group_id(1);                                                          \
    const ulong begin = get_group_id(0) * piece, end = min(width, begin + piece);               \
    for (ulong i = begin; i < end; ++i) to[row * to_stride + i] = from[row * from_stride + i];  \
  }

SLUICE_COPY(copy_1, uchar)
SLUICE_COPY(copy_4, uint)
SLUICE_COPY(copy_16, uint4)
