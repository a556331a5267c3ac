// What the ops' host sides of this backend have in common: options for the programs, pieces of
// rows, strides and pointers as kernels take them.
#pragma once

#include <string>

#include "base/check.h"
#include "base/str_cat.h"
#include "ops/tensor.h"

namespace sluice::xpu {

// A type's name in the .cl sources: "f32", "bf16", "i8", "q4_k", "f8_e4m3".
std::string ClName(DType dtype);

// The same for what a KV cache holds, which .cl sources call by their bytes: F8_E4M3 is "f8".
inline std::string KvName(DType dtype) { return dtype == DType::kF8E4M3 ? "f8" : ClName(dtype); }

// Elements from row to row, as a kernel's ulong.
inline uint64_t RowStride(const ops::Tensor& t) {
  return t.rank == 0 ? 0 : static_cast<uint64_t>(t.strides[0]);
}

// Elements of a row that one work-group does, so that long rows use several compute units.
inline constexpr int kPieceElements = 2048;
inline size_t PiecesOf(int64_t width) {
  return static_cast<size_t>((width + kPieceElements - 1) / kPieceElements);
}

// Work-items of a group: on a CPU the driver runs them one after another, and vectors in each are
// what its lanes are for.
inline int ItemsFor(const device::DeviceFacts& facts, int on_gpu) {
  return facts.on_host_processor ? 1 : on_gpu;
}

}  // namespace sluice::xpu
