// The compiled kernels inside this program. Constant; any thread may read.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace sluice::cuda {

// One .cu file.
struct Module {
  std::string_view name;  // the file's stem
  std::span<const std::byte> fatbin;
};

std::span<const Module> Modules();
// What they are compiled for, as nvcc has it: "90a".
std::span<const std::string_view> Architectures();

}  // namespace sluice::cuda
