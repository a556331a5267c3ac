// The number format in which a device computes a model. Any thread.
#pragma once

#include "base/dtype.h"
#include "device/types.h"
#include "files/tensor_source.h"

namespace sluice::exec {

// The type of activations: F32 for a model most of whose matrices' bytes are F32, and on a device
// that computes in nothing else. Elsewhere F16 for a model most of whose other bytes are F16, which
// BF16 would round, and the device's own type for any other, block formats among them.
DType ActivationOf(const files::TensorSource& tensors, const device::DeviceFacts& facts);

}  // namespace sluice::exec
