#include "backend/cpu/linear/row_split.h"

#include "base/check.h"

namespace sluice::cpu {

RowSplit SplitRows(const LinearKernels& kernels, int64_t m) {
  CHECK(m >= 1, m, " rows");
  int count = kernels.row_counts;
  while (count > 1 && m < kernels.by_rows[count - 1].rows_min) --count;
  // The smallest kernel that takes all of `rows`, or the largest there is.
  auto smallest = [&](int64_t rows) {
    int at = 0;
    while (at + 1 < count && kernels.by_rows[at].rows < rows) ++at;
    return at;
  };
  RowSplit split;
  split.full = smallest(m);
  const int rows = kernels.by_rows[split.full].rows;
  split.tiles = (m + rows - 1) / rows;
  split.tail = smallest(m - (split.tiles - 1) * rows);
  return split;
}

size_t UnpackedBytes(const ops::BlockFormat& format) {
  const size_t lanes = 16;
  return lanes * (format.sub + sizeof(float) * (format.minimum ? 2 : 1));
}

}  // namespace sluice::cpu
