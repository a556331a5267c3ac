// Parameters on a device. A parameter is a slot with a stable device address and a version: an
// update writes in place, between steps, and bumps the version. The map owns the memory; where the
// device reads host memory, an embedding's rows are the file's own pages.
// Written by the loading thread, then by whoever updates while no step runs.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "device/device.h"
#include "ops/linear.h"
#include "ops/op.h"
#include "ops/tensor.h"
#include "weights/manifest.h"

namespace sluice::weights {

// Called on the loading thread as weights arrive, at least once at the end.
using Progress = std::function<void(size_t bytes_done, size_t bytes_total)>;

// Rows [row_begin, row_begin + weight.n) of a matrix. A matrix whose sources share a number format
// is one part; sources of different formats stay apart.
struct LinearPart {
  ops::Bound<ops::Linear> linear;
  ops::PackedWeight weight;
  int64_t row_begin = 0;
};

struct Parameter {
  ParamSpec spec;
  uint64_t version = 1;           // bumped by every update
  std::vector<LinearPart> parts;  // kLinear
  ops::Tensor tensor;             // kEmbedding [rows, columns], kNorm and kBias [rows]
};

class ParameterMap {
 public:
  ParameterMap() = default;
  ParameterMap(ParameterMap&&) = default;
  ParameterMap& operator=(ParameterMap&&) = default;

  // nullptr when there is none. The address is stable for the life of the map.
  const Parameter* Find(std::string_view name) const;
  // Memory taken: without parameters that are read from the file in place.
  size_t bytes() const { return bytes_; }

  // Replaces the values of `name` by those of `source`, which spells names as the checkpoint did.
  // Shape and number formats must be those of the load. On an error the old values stand, unless
  // the device itself failed. REQUIRES: no step is running.
  Status Update(device::Device& device, device::Stream& stream, std::string_view name,
                const files::TensorSource& source);

 private:
  friend class Placer;
  Naming naming_ = Naming::kHuggingFace;
  DType activation_ = DType::kF32;
  std::map<std::string, std::unique_ptr<Parameter>, std::less<>> parameters_;
  std::vector<device::Buffer> memory_;  // that all parameters lie in
  size_t bytes_ = 0;
};

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
