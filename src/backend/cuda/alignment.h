// Whether kernels may access a tensor by 16 bytes. Pure.
#pragma once

#include <cstdint>

#include "ops/tensor.h"

namespace sluice::cuda {

// Every row of the tensor of rank 2 begins at a multiple of `bytes`. An absent tensor does.
inline bool RowsBeginAt(const ops::Tensor& t, size_t bytes) {
  if (t.data == nullptr) return true;
  const auto stride = static_cast<size_t>(t.strides[0]) * Info(t.dtype).bytes;
  return reinterpret_cast<uintptr_t>(t.data) % bytes == 0 &&
         (t.dims[0] <= 1 || stride % bytes == 0);
}

}  // namespace sluice::cuda
