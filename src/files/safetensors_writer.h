// Writes a safetensors file: names, types and shapes first, then the bytes of each tensor in order.
// The file appears under its name at the end, complete, or not at all. One thread.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "files/atomic_file.h"
#include "files/tensor_source.h"

namespace sluice::files {

// What is to be written.
struct SafetensorsTensor {
  std::string name;
  DType dtype = DType::kF32;  // a plain one
  std::vector<int64_t> shape;
  std::vector<std::span<const std::byte>> pieces;  // its bytes, in order
};

// Errors as AtomicFile.
Status WriteSafetensors(const std::string& path, const std::vector<SafetensorsTensor>& tensors,
                        AtomicFile::Options options);

}  // namespace sluice::files
