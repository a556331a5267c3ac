#include "exec/kv_dtype.h"

#include "base/str_cat.h"
#include "exec/activation_dtype.h"

namespace sluice::exec {

DType AutomaticKvDtype(const files::TensorSource& tensors, const device::DeviceFacts& facts) {
  int64_t f32 = 0, all = 0;
  for (const files::FileTensor& tensor : tensors.tensors()) {
    if (tensor.shape.size() < 2) continue;
    int64_t count = 1;
    for (const int64_t dim : tensor.shape) count *= dim;
    all += count;
    if (tensor.dtype == DType::kF32) f32 += count;
  }
  if (2 * f32 > all) return DType::kF32;
  return ActivationOf(tensors, facts) == DType::kF16 ? DType::kF16 : facts.kv_dtype;
}

Result<DType> ParseKvDtype(const std::string& name, DType automatic) {
  if (name == "auto") return automatic;
  if (name == "f16") return DType::kF16;
  if (name == "f32") return DType::kF32;
  if (name == "bf16") return DType::kBF16;
  if (name == "fp8") return DType::kF8E4M3;
  if (name == "int8") return DType::kI8;
  return InvalidArgument(
      StrCat("--kv-dtype \"", name, "\" is unknown; use auto, f32, f16, bf16, fp8 or int8"),
      "kv-dtype");
}

}  // namespace sluice::exec
