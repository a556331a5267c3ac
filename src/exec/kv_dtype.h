// The KV cache's number format by the name that --kv-dtype gives it. Any thread.
#pragma once

#include <string>

#include "base/dtype.h"
#include "device/types.h"
#include "files/tensor_source.h"
#include "sluice/status.h"

namespace sluice::exec {

// What `auto` stands for: F32 for a model most of whose matrix elements are F32, so that nothing of
// it is rounded on the way through the cache; F16 where activations are F16, which the device's
// attention multiplies as they are; else what the device's attention reads fastest.
DType AutomaticKvDtype(const files::TensorSource& tensors, const device::DeviceFacts& facts);

// auto (`automatic`), f32, f16, bf16, fp8 (E4M3) or int8; kInvalidArgument for anything else.
Result<DType> ParseKvDtype(const std::string& name, DType automatic);

}  // namespace sluice::exec
