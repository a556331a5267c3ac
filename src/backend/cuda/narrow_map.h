// Maps of tensors whose rows are brought in halves, and of weights.
#pragma once

#include "backend/cuda/tensor_map.h"

namespace sluice::cuda {

// As MapBoxes, but for a box of 128 bytes of a row the device's cache fetches no more than these.
// The others fetch 256, so that where two boxes take the halves of rows each of them fetches both;
// weights come slower by that too, 4.1 TB/s on an H200 instead of 4.5.
Result<TensorMap> MapNarrowBoxes(const BoxedTensor& tensor);

}  // namespace sluice::cuda
