// What the supports functions of this backend's kernels have in common.
#pragma once

#include "backend/cpu/isa.h"
#include "base/check.h"
#include "base/dtype.h"
#include "ops/op.h"

namespace sluice::cpu {

// Whether the device runs kernels of `isa`.
inline ops::Support NeedsIsa(Isa isa, const device::DeviceFacts& facts) {
  if (IsaOf(facts.architecture) >= isa) return ops::Support::Yes();
  return ops::Support::NotOnDevice(
      StrCat("needs ", Name(isa), ", the instruction set in use is ", facts.architecture));
}

// For kernels of one activation type.
inline ops::Support NeedsIsaAndF32(Isa isa, DType activation, const device::DeviceFacts& facts) {
  if (activation != DType::kF32)
    return ops::Support::No(StrCat("takes F32 activations, not ", Name(activation)));
  return NeedsIsa(isa, facts);
}

// The kernel for KV in the format `kv`, of a table with one for each format that supports accepts.
template <class Kernels>
const auto& KernelForKv(const Kernels& kernels, DType kv) {
  switch (kv) {
    case DType::kF32:
      return kernels.f32;
    case DType::kF16:
      return kernels.f16;
    case DType::kBF16:
      return kernels.bf16;
    case DType::kF8E4M3:
      return kernels.f8;
    default:
      CHECK(kv == DType::kI8, "no kernel for KV in ", Name(kv));
      return kernels.i8;
  }
}

}  // namespace sluice::cpu
