// The KV cache's number format by the name that --kv-dtype gives it. Any thread.
#pragma once

#include <string>

#include "base/dtype.h"
#include "sluice/status.h"

namespace sluice::exec {

// auto (`automatic`: what the device likes best), f32, f16, bf16, fp8 (E4M3) or int8;
// kInvalidArgument for anything else.
Result<DType> ParseKvDtype(const std::string& name, DType automatic);

}  // namespace sluice::exec
