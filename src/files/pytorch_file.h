// PyTorch's own file of weights, pytorch_model.bin as torch.save writes it since 1.6: a zip file of
// stored numbers and of a pickle that tells which tensors they are. It is mapped, not read, and
// nothing in it is run.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "files/tensor_source.h"
#include "sluice/status.h"

namespace sluice::files {

inline constexpr char kPytorchName[] = "pytorch_model.bin";

// Errors as MappedFile::Open, and kBadModel with one sentence: damaged, older, of numbers that are
// not supported, with a tensor that does not lie row by row, or with more in it than weights.
Result<std::shared_ptr<const TensorSource>> OpenPytorch(const std::string& path);

// The tensors of the file's bytes, in the pickle's order; `data` points into `bytes`. kBadModel.
Result<std::vector<FileTensor>> ParsePytorch(std::span<const std::byte> bytes);

}  // namespace sluice::files
