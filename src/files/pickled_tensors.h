// The dictionary of tensors in a pickle as torch.save writes it, protocol 2. Nothing is run: a
// pickle is a small program, and of its calls only those that make dictionaries, storages and
// tensors are known; all others are refused by name. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "sluice/status.h"

namespace sluice::files {

// A tensor as the pickle tells of it; names point into the pickle.
struct PickledTensor {
  std::string_view name;
  std::string_view storage;  // the name of what holds its numbers
  DType dtype = DType::kF32;
  int64_t offset = 0;            // numbers of the storage before its first
  std::vector<int64_t> shape;    // as FileTensor::shape
  std::vector<int64_t> strides;  // in numbers
};

// Those of its top dictionary, in its order; what is no tensor is left out. kBadModel.
Result<std::vector<PickledTensor>> ReadPickledTensors(std::span<const std::byte> pickle);

}  // namespace sluice::files
