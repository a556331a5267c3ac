#include "exec/kv_dtype.h"

#include "base/str_cat.h"

namespace sluice::exec {

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
