// Matrices whose columns lie where others have their rows, as checkpoints store experts that are
// multiplied from the right, or a head's share of a matrix that is multiplied the other way round.
// Immutable; any thread.
#pragma once

#include <memory>
#include <vector>

#include "files/tensor_source.h"
#include "sluice/status.h"
#include "weights/derived_matrix.h"
#include "weights/manifest.h"

namespace sluice::weights {

class TransposedMatrix : public DerivedMatrix {
 public:
  // Of each group of rows of `tensor` that `pick` has (all dims of the tensor but the last one are
  // rows) the matrix [last dim, rows of the group]; of one group of a matrix that alone. F8 with
  // `scales` becomes BF16. kBadModel with one sentence where the tensor has other rows or another
  // format.
  static Result<std::shared_ptr<const TransposedMatrix>> Make(const files::FileTensor& tensor,
                                                              const RowPick& pick,
                                                              const SourceScales& scales);

  std::vector<std::byte> Rows(int64_t first, int64_t count) const override;
  const files::FileTensor& stored() const override { return *stored_; }

 private:
  const files::FileTensor* stored_ = nullptr;
  RowPick pick_;
  SourceScales scales_;
};

}  // namespace sluice::weights
