#include "backend/cpu/linear/row_split.h"

#include <gtest/gtest.h>

namespace sluice::cpu {
namespace {

constexpr int kManyRows = 25;

// Those of `many_from` rows or more are for kManyRows.
LinearKernels Kernels(std::initializer_list<int> rows, int many_from) {
  LinearKernels kernels;
  for (const int count : rows) {
    kernels.by_rows[kernels.row_counts].rows = count;
    kernels.by_rows[kernels.row_counts++].rows_min = count >= many_from ? kManyRows : 0;
  }
  return kernels;
}

TEST(RowSplitTest, TilesCoverEveryRowOnce) {
  for (const LinearKernels& kernels :
       {Kernels({1, 2, 4, 8, 12}, 99), Kernels({1, 2, 4, 8, 16}, 16), Kernels({1}, 99)}) {
    for (int64_t m = 1; m <= 70; ++m) {
      const RowSplit split = SplitRows(kernels, m);
      const int64_t full = kernels.by_rows[split.full].rows,
                    tail = kernels.by_rows[split.tail].rows;
      const int64_t rest = m - full * (split.tiles - 1);
      EXPECT_GE(rest, 1) << m;
      EXPECT_LE(rest, tail) << m;
      EXPECT_LE(tail, full) << m;
    }
  }
}

TEST(RowSplitTest, TheTailTakesTheSmallestKernelThatHoldsIt) {
  const LinearKernels kernels = Kernels({1, 2, 4, 8, 12}, 99);
  EXPECT_EQ(SplitRows(kernels, 12 + 3).tail, 2);
  EXPECT_EQ(SplitRows(kernels, 12 + 9).tail, 4);
  EXPECT_EQ(SplitRows(kernels, 3).full, 2) << "few rows don't pay for many";
}

TEST(RowSplitTest, SomeKernelsAreForManyRows) {
  const LinearKernels kernels = Kernels({1, 2, 4, 8, 12, 16}, 16);
  EXPECT_EQ(SplitRows(kernels, 16).full, 4) << "12 and 4 rows";
  EXPECT_EQ(SplitRows(kernels, 16).tail, 2);
  EXPECT_EQ(SplitRows(kernels, kManyRows - 1).full, 4);
  EXPECT_EQ(SplitRows(kernels, kManyRows).full, 5);
  EXPECT_EQ(SplitRows(kernels, 32 + 4).tail, 2) << "a vector kernel may take the tail";
  EXPECT_EQ(SplitRows(kernels, 32 + 13).tail, 5);
}

TEST(RowSplitTest, OfTwoKernelsForEqualRowsTheLaterTakesWholeTiles) {
  LinearKernels kernels = Kernels({1, 2, 4, 8, 12, 12}, 99);
  kernels.by_rows[5].rows_min = kManyRows;
  EXPECT_EQ(SplitRows(kernels, kManyRows - 1).full, 4);
  EXPECT_EQ(SplitRows(kernels, kManyRows).full, 5);
  EXPECT_EQ(SplitRows(kernels, 48).tail, 4);
}

}  // namespace
}  // namespace sluice::cpu
