// A matrix that a checkpoint holds in another form than the rows of a number format: they are made
// when they are packed. Immutable; any thread.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "files/tensor_source.h"
#include "ops/linear.h"

namespace sluice::weights {

// What a matrix of a checkpoint is multiplied by, beside scales that its format has. Checked:
// finite and above zero.
struct SourceScales {
  ops::WeightScales covers = ops::WeightScales::kNone;
  const files::FileTensor* weight = nullptr;  // of the size that `covers` asks for
  bool divides = false;                       // the matrix is divided by it
  const files::FileTensor* input = nullptr;   // F8Inputs::kStatic: one number
};

class DerivedMatrix {
 public:
  virtual ~DerivedMatrix() = default;

  // Stands for the matrix where tensors of a checkpoint are planned: its name, shape and number
  // format; no bytes.
  const files::FileTensor& tensor() const { return tensor_; }
  // Rows [first, first + count) in that format. Those of a stack of matrices are counted on.
  virtual std::vector<std::byte> Rows(int64_t first, int64_t count) const = 0;
  // What most of its bytes lie in.
  virtual const files::FileTensor& stored() const = 0;
  // What all of it is multiplied by.
  const SourceScales& scales() const { return scales_; }
  // The column of the checkpoint's matrix that each column of Rows is; empty: the same one.
  const std::vector<int32_t>& order() const { return order_; }

 protected:
  files::FileTensor tensor_;
  SourceScales scales_;
  std::vector<int32_t> order_;
};

// The tensor of this name, without which the one `beside` it cannot be read in this format.
// kBadModel: there is none.
Result<const files::FileTensor*> FindNeeded(const files::TensorSource& source,
                                            const std::string& name, std::string_view beside,
                                            std::string_view format);
// kBadModel unless the tensor is of this type and shape.
Status CheckForm(const files::FileTensor& tensor, DType dtype, const std::vector<int64_t>& shape);
// Of the names of tensors that belong to a matrix: what stands before "weight" in its own.
std::string StemOf(std::string_view name);

}  // namespace sluice::weights
