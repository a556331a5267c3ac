// Matrices in NVFP4: floats of four bits, for each 16 columns of a row a scale in E4M3, and a scale
// of the whole matrix, as ModelOpt and compressed-tensors store them. Read as rows of GGUF's NVFP4
// blocks, which hold the same numbers in another order. Immutable; any thread.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "files/tensor_source.h"
#include "sluice/status.h"
#include "weights/derived_matrix.h"

namespace sluice::weights {

class Nvfp4Matrix : public DerivedMatrix {
 public:
  // The matrix of `rows` by `columns` that a checkpoint has under the name "x.weight"; null where
  // it has none. It is
  //   ModelOpt: "x.weight" U8 [rows, columns / 2] with "x.weight_scale" F8_E4M3 [rows, columns /
  //   16]
  //     and "x.weight_scale_2", one number that all is multiplied by;
  //   compressed-tensors: "x.weight_packed" with "x.weight_scale", as above, and
  //     "x.weight_global_scale", one number that all is divided by.
  // kBadModel with one sentence: columns that blocks of 64 do not divide, tensors that are missing
  // or do not fit together, scales that are negative or no numbers.
  static Result<std::shared_ptr<const Nvfp4Matrix>> Find(std::string_view name, int64_t rows,
                                                         int64_t columns,
                                                         const files::TensorSource& source);
  // Whether there is one.
  static bool IsIn(std::string_view name, const files::TensorSource& source);

  std::vector<std::byte> Rows(int64_t first, int64_t count) const override;
  const files::FileTensor& stored() const override { return *codes_; }

 private:
  int64_t columns_ = 0;
  const files::FileTensor* codes_ = nullptr;
  const files::FileTensor* block_scales_ = nullptr;
};

}  // namespace sluice::weights
