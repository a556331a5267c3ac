// Matrices in integers of 4 bits with a scale and a zero point for each group of columns, as AWQ,
// GPTQ and compressed-tensors store them, read as rows of Q4_1 blocks: value = scale * (code -
// zero) is scale * code + minimum with minimum = -scale * zero. Codes and scales stay as they are
// (a scale in F16); the minimum is rounded to F16. Columns whose groups do not lie side by side, as
// GPTQ's act order leaves them, are sorted by their groups. Immutable; any thread.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "files/tensor_source.h"
#include "sluice/status.h"
#include "weights/derived_matrix.h"

namespace sluice::weights {

class Int4Matrix : public DerivedMatrix {
 public:
  // The matrix that a checkpoint has instead of the tensor `name` ("x.weight"), of `rows` by
  // `columns`; null where it has none. What it is, its tensors say:
  //   AWQ: "x.qweight" I32 [columns, rows / 8], with "x.qzeros" [groups, rows / 8];
  //   GPTQ: "x.qweight" I32 [columns / 8, rows], with "x.qzeros" as AWQ's, and maybe "x.g_idx";
  //   compressed-tensors: "x.weight_packed" I32 [rows, columns / 8], maybe with
  //     "x.weight_zero_point" [rows / 8, groups].
  // kBadModel with one sentence: tensors that are missing or do not fit together, groups that
  // blocks of 32 columns do not divide, groups of different size.
  static Result<std::shared_ptr<const Int4Matrix>> Find(std::string_view name, int64_t rows,
                                                        int64_t columns,
                                                        const files::TensorSource& source);
  // Whether there is one.
  static bool IsIn(std::string_view name, const files::TensorSource& source);

  // As Q4_1.
  std::vector<std::byte> Rows(int64_t first, int64_t count) const override;
  const files::FileTensor& stored() const override { return *codes_; }

 private:
  enum class Format { kAwq, kGptq, kCompressed };

  Status CheckShapes() const;
  Status ReadOrder(const files::FileTensor& group_of_column);
  int CodeAt(int64_t row, int64_t column) const;  // of the checkpoint's matrix
  int ZeroAt(int64_t row, int64_t group) const;

  Format format_ = Format::kGptq;
  int64_t rows_ = 0, columns_ = 0, groups_ = 0;
  const files::FileTensor* codes_ = nullptr;
  const files::FileTensor* scales_ = nullptr;
  const files::FileTensor* zeros_ = nullptr;  // null: all are 8
  std::vector<float> scale_values_;
};

}  // namespace sluice::weights
