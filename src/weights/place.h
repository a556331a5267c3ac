// From a checkpoint to parameters on a device. Any thread; a device may be loaded by one at a time.
#pragma once

#include <functional>
#include <vector>

#include "weights/parameters.h"

namespace sluice::weights {

// Called on the loading thread as weights arrive, at least once at the end.
using Progress = std::function<void(size_t bytes_done, size_t bytes_total)>;

struct PlaceOptions {
  Naming naming = Naming::kHuggingFace;
  DType activation = DType::kF32;
  Progress progress;                                // may be empty
  std::vector<ops::BindRecord>* records = nullptr;  // may be null
  // Of each buffer of host memory on the way to a device with memory of its own; there are four,
  // larger only where one row group of a packing is.
  size_t staging_bytes = size_t{16} << 20;
};

// Bytes that Place will allocate; reads no tensor bytes.
Result<size_t> PlacedBytes(const std::vector<ParamSpec>& specs, const files::TensorSource& source,
                           const device::Device& device, const PlaceOptions& options);

// What is left of the device's free memory beside `bytes` of weights. kOutOfMemory when they do not
// fit.
Result<size_t> FreeBytesBeside(size_t bytes, const device::Device& device);

// Finds, checks, converts, packs and copies every parameter; pages of the file are released as they
// are used. kOutOfMemory before anything is allocated when the device has too little free memory.
Result<ParameterMap> Place(const std::vector<ParamSpec>& specs, const files::TensorSource& source,
                           device::Device& device, const PlaceOptions& options);

}  // namespace sluice::weights
