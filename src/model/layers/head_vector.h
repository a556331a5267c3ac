// A short vector on the device that no checkpoint has: the slopes of ALiBi by head, or the ones
// that a norm without weights multiplies by. Immutable; outlives the blocks that read it.
#pragma once

#include <vector>

#include "device/device.h"
#include "ops/tensor.h"

namespace sluice::model::layers {

class HeadVector {
 public:
  static Result<HeadVector> Make(device::Device& device, const std::vector<float>& values);
  const ops::Tensor& tensor() const { return tensor_; }  // F32 [values]; empty until it is made

 private:
  device::Buffer buffer_;
  ops::Tensor tensor_;
};

}  // namespace sluice::model::layers
