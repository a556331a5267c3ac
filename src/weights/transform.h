// Values of checkpoint tensors in the form that ops want. Pure functions; any thread.
#pragma once

#include <span>
#include <vector>

#include "files/tensor_source.h"
#include "weights/manifest.h"

namespace sluice::weights {

// Rows of a source that lie together in its tensor, [from, from + count) there, and the first of
// them among those that are taken.
struct RowRun {
  int64_t from = 0, count = 0;
  int64_t row = 0;
};
// The run that begins at the taken row `row` and ends at `end` at the latest.
// REQUIRES: 0 <= row < end <= source.rows.
RowRun RunAt(const ParamSource& source, int64_t row, int64_t end);

// The rows [from, from + count) of a matrix, or of several in one tensor, as a tensor of the same
// name.
files::FileTensor RowsOf(const files::FileTensor& tensor, int64_t from, int64_t count);

// The numbers [from, from + count) of a plain tensor, counted in its order, as a vector.
files::FileTensor NumbersOf(const files::FileTensor& tensor, int64_t from, int64_t count);

// The elements of a plain tensor (F32, F16, BF16) as F32.
std::vector<float> ToF32(const files::FileTensor& tensor);

// A kNorm, kTaps or kBias parameter as bytes of `dtype` (F32, F16 or BF16): sources one after the
// other, plus one where the spec says so.
std::vector<std::byte> VectorBytes(const ResolvedParam& param, DType dtype);

// Rows [first, first + count) of a matrix in a block format, whose bytes are given, times its
// scales as BF16.
std::vector<std::byte> WidenBlocks(const files::FileTensor& tensor, const SourceScales& scales,
                                   std::span<const std::byte> rows, int64_t first, int64_t count);

// Rows [first, first + count) of an F8 matrix times its scales as BF16: the product of F8's four
// significant bits and the scale is rounded to BF16's eight, far below F8's own error.
std::vector<std::byte> WidenF8(const files::FileTensor& tensor, const SourceScales& scales,
                               int64_t first, int64_t count);

}  // namespace sluice::weights
