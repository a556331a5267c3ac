// Scales of matrices in F8 and I8 as checkpoints have them: found and checked beside their
// matrices, and put together for a part of several matrices. Pure functions; any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "files/model_config.h"
#include "files/tensor_source.h"
#include "weights/manifest.h"

namespace sluice::weights {

// "[2, 3]".
std::string ShapeText(const std::vector<int64_t>& shape);

// kBadModel unless `scales` is a plain tensor of finite numbers above zero, as every scale must be.
Status CheckScales(const files::FileTensor& scales);

// The same for a scale that must be one number; `what` it is stands in the message.
Status CheckOneNumber(const files::FileTensor& scale, std::string_view what);

// The scales of `tensor`, a matrix "x.weight" of a Hugging Face folder: "x.weight_scale" or
// "x.weight_scale_inv" (by which it is multiplied, whatever the name), and with static activations
// "x.input_scale" or "x.activation_scale". kBadModel with one sentence where an F8 matrix of a
// quantized checkpoint or an I8 matrix has none, another has some, they are not what they should
// be, or an I8 matrix has zero points.
Result<SourceScales> FindScales(const files::FileTensor& tensor, const files::TensorSource& source,
                                const std::optional<files::F8Quantization>& quantization);

// Of a matrix of a GGUF file: that of NVFP4, "x.scale" beside "x.weight", where there is one.
// kBadModel with one sentence where it is not one number, or where a matrix is I8.
Result<SourceScales> FindGgufScales(const files::FileTensor& tensor,
                                    const files::TensorSource& source);

// Of sources [first, first + count): the finest of what their scales cover, where one matrix over
// all of their rows can have scales without any of them changing; nothing where it cannot. In each
// row of several matrices is the scale of its own, or 1.
std::optional<ops::WeightScales> MergedScales(const ResolvedParam& param, size_t first,
                                              size_t count);

// The scale of each element of a matrix; 1 where it has none.
class ScaleReader {
 public:
  ScaleReader(const files::FileTensor& tensor, const SourceScales& scales);
  float At(int64_t row, int64_t column) const;

 private:
  ops::WeightScales covers_;
  int64_t blocks_ = 0;  // in a row of blocks
  std::vector<float> values_;
};

}  // namespace sluice::weights
