// Maps of tensors whose rows are brought in halves.
#pragma once

#include "backend/cuda/tensor_map.h"

namespace sluice::cuda {

// As MapBoxes, but for a box of 128 bytes of a row the device's cache fetches no more than these.
// The others fetch 256, so that where two boxes take the halves of rows each of them fetches both.
Result<TensorMap> MapNarrowBoxes(const BoxedTensor& tensor);

}  // namespace sluice::cuda
