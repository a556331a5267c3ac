// One kernel per activation type: extern "C" functions of one module that end in _f32, _f16, _bf16.
#pragma once

#include "backend/cuda/launch.h"
#include "base/dtype.h"

namespace sluice::cuda {

struct KernelByType {
  KernelId f32, f16, bf16;
  // REQUIRES: a plain floating-point type.
  const KernelId& operator()(DType dtype) const {
    return dtype == DType::kF32 ? f32 : dtype == DType::kF16 ? f16 : bf16;
  }
};

// The three of `function` in `module`, both string literals.
#define SLUICE_KERNEL_BY_TYPE(module, function) \
  { {module, function "_f32"}, {module, function "_f16"}, {module, function "_bf16"}, }

// Blocks that `items` need at `per_block` each.
inline unsigned BlocksFor(int64_t items, int64_t per_block) {
  return static_cast<unsigned>((items + per_block - 1) / per_block);
}

}  // namespace sluice::cuda
