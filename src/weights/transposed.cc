#include "weights/transposed.h"

#include <algorithm>
#include <cstring>

#include "base/str_cat.h"
#include "weights/scales.h"
#include "weights/transform.h"

namespace sluice::weights {

Result<std::shared_ptr<const TransposedMatrix>> TransposedMatrix::Make(
    const files::FileTensor& tensor, const RowPick& pick, const SourceScales& scales) {
  const bool plain =
      tensor.dtype == DType::kF32 || tensor.dtype == DType::kF16 || tensor.dtype == DType::kBF16;
  const bool widened = tensor.dtype == DType::kF8E4M3 && tensor.shape.size() == 2;
  int64_t rows = 1;
  for (size_t i = 0; i + 1 < tensor.shape.size(); ++i) rows *= tensor.shape[i];
  if (!(plain || widened) || tensor.shape.size() < 2 || rows != pick.groups * pick.group_rows) {
    return BadModel(StrCat("tensor \"", tensor.name, "\" is ", Name(tensor.dtype), " of shape ",
                           ShapeText(tensor.shape), " but must have ",
                           pick.groups * pick.group_rows,
                           " rows in F32, F16, BF16, or F8_E4M3 as one matrix"));
  }
  auto matrix = std::make_shared<TransposedMatrix>();
  matrix->stored_ = &tensor;
  matrix->pick_ = pick;
  matrix->scales_ = scales;
  matrix->tensor_ = {tensor.name,
                     widened ? DType::kBF16 : tensor.dtype,
                     {pick.groups, tensor.shape.back(), pick.count},
                     {}};
  std::vector<int64_t>& shape = matrix->tensor_.shape;
  if (pick.groups == 1 && tensor.shape.size() == 2) shape.erase(shape.begin());
  return std::shared_ptr<const TransposedMatrix>(std::move(matrix));
}

std::vector<std::byte> TransposedMatrix::Rows(int64_t first, int64_t count) const {
  const size_t width = static_cast<size_t>(Info(tensor_.dtype).bytes);
  const int64_t columns = tensor_.shape.back(), rows = tensor_.shape.end()[-2];
  std::vector<std::byte> out(static_cast<size_t>(count * columns) * width);
  for (int64_t done = 0; done < count;) {
    const int64_t group = (first + done) / rows, row = (first + done) % rows;
    const int64_t here = std::min(rows - row, count - done);
    const int64_t from = group * pick_.group_rows + pick_.begin;
    std::vector<std::byte> wide;
    const std::byte* stored;
    if (stored_->dtype == tensor_.dtype) {
      stored = RowsOf(*stored_, from, columns).data.data();
    } else {
      wide = WidenF8(*stored_, scales_, from, columns);
      stored = wide.data();
    }
    // Columns outside: neighbouring rows lie side by side.
    for (int64_t column = 0; column < columns; ++column) {
      for (int64_t r = 0; r < here; ++r) {
        std::memcpy(out.data() + static_cast<size_t>((done + r) * columns + column) * width,
                    stored + static_cast<size_t>(column * rows + row + r) * width, width);
      }
    }
    done += here;
  }
  return out;
}

}  // namespace sluice::weights
