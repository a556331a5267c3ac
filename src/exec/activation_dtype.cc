#include "exec/activation_dtype.h"

namespace sluice::exec {

DType ActivationOf(const files::TensorSource& tensors, const device::DeviceFacts& facts) {
  size_t f32 = 0, f16 = 0, others = 0;
  for (const files::FileTensor& tensor : tensors.tensors()) {
    if (tensor.shape.size() < 2) continue;
    size_t& bytes = tensor.dtype == DType::kF32 ? f32 : tensor.dtype == DType::kF16 ? f16 : others;
    bytes += tensor.data.size();
  }
  if (facts.activation == DType::kF32 || f32 >= f16 + others) return DType::kF32;
  return f16 > others ? DType::kF16 : facts.activation;
}

}  // namespace sluice::exec
