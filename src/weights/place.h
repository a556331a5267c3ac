// From a plan to parameters on a device. Any thread; a device may be loaded by one at a time.
#pragma once

#include <functional>

#include "weights/parameters.h"

namespace sluice::weights {

// Called on the loading thread as weights arrive, at least once at the end.
using Progress = std::function<void(size_t bytes_done, size_t bytes_total)>;

struct PlaceOptions {
  Progress progress;  // may be empty
  // Of each buffer of host memory on the way to a device with memory of its own; there are four,
  // larger only where one row group of a packing is.
  size_t staging_bytes = size_t{16} << 20;
};

// What is left of the device's free memory beside `bytes` of weights. kOutOfMemory when they do not
// fit.
Result<size_t> FreeBytesBeside(size_t bytes, const device::Device& device);

// Converts, packs and copies every parameter; pages of the file are released as they are used.
// kOutOfMemory before anything is allocated when the device has too little free memory.
// REQUIRES: the plan was made for `device`.
Result<ParameterMap> Place(WeightPlan plan, device::Device& device, const PlaceOptions& options);

}  // namespace sluice::weights
