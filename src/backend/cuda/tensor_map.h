// How a tensor lies in device memory, for the copy engine that brings boxes of it into shared
// memory, in the 128-byte swizzle; what lies outside the tensor comes as zeros. A value that a
// kernel takes as a parameter (__grid_constant__): it holds the address, asks nothing of the
// device, and is made anew for each launch.
#pragma once

#include <array>
#include <cstdint>

#include "sluice/status.h"

namespace sluice::cuda {

struct alignas(64) TensorMap {
  uint64_t words[16] = {};
};

// A matrix of bytes. A box is 128 columns of `box_rows` rows, for which the device's cache fetches
// no more than these: where it fetches 256 bytes for each 128, weights come by 4.1 TB/s on an H200
// instead of 4.5. REQUIRES: data and row_bytes are
// multiples of 16, box_rows <= 256.
Result<TensorMap> MapBytes(const void* data, int64_t rows, int64_t columns, int64_t row_bytes,
                           int box_rows);

// A tensor of numbers of one or two bytes: neighbours first, `strides` of the other dimensions in
// bytes.
struct BoxedTensor {
  const void* data;
  int number_bytes;
  std::array<uint64_t, 4> dims;
  std::array<uint64_t, 3> strides;
  std::array<uint32_t, 4> box;
};
// REQUIRES: data and strides are multiples of 16; a box has 128 bytes of neighbours and at most 256
// numbers along each other dimension.
Result<TensorMap> MapBoxes(const BoxedTensor& tensor);

}  // namespace sluice::cuda
