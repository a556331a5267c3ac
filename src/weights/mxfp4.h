// Matrices of all experts of a layer in MXFP4, as gpt-oss stores them: for each 32 columns of a row
// 16 bytes of two codes and the exponent of their scale. Read as rows of GGUF's MXFP4 blocks, which
// hold the same numbers in another order. Immutable; any thread.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "files/tensor_source.h"
#include "sluice/status.h"
#include "weights/derived_matrix.h"

namespace sluice::weights {

class Mxfp4Matrix : public DerivedMatrix {
 public:
  // The matrices that a checkpoint has instead of the tensor `name`: "name_blocks" U8 [experts,
  // rows, columns / 32, 16] and "name_scales" U8 [experts, rows, columns / 32]; null where it has
  // none. kBadModel with one sentence: tensors that are missing or misshapen, a scale that is no
  // number.
  static Result<std::shared_ptr<const Mxfp4Matrix>> Find(std::string_view name, int64_t experts,
                                                         int64_t rows, int64_t columns,
                                                         const files::TensorSource& source);
  // Whether there are any.
  static bool IsIn(std::string_view name, const files::TensorSource& source);

  std::vector<std::byte> Rows(int64_t first, int64_t count) const override;
  const files::FileTensor& stored() const override { return *blocks_; }

 private:
  int64_t row_blocks_ = 0;
  const files::FileTensor* blocks_ = nullptr;
  const files::FileTensor* scales_ = nullptr;
};

}  // namespace sluice::weights
