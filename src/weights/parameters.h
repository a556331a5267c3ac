// Parameters on a device. A parameter is a slot with a stable device address: an update writes in
// place, between steps, and bumps the version of the map. The map owns the memory; where the device
// reads host memory, an embedding's rows are the file's own pages.
// Written by the loading thread, then by whoever updates while no step runs.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "device/device.h"
#include "ops/tensor.h"
#include "weights/plan.h"

namespace sluice::weights {

// Rows [row_begin, row_begin + weight.n) of a matrix, or as many of each expert's. A matrix whose
// sources share a number format is one part; sources of different formats stay apart.
struct LinearPart {
  ops::Bound<ops::Linear> linear;          // kLinear
  ops::Bound<ops::GroupedLinear> grouped;  // kExperts
  ops::PackedWeight weight;
  int64_t row_begin = 0;
};

struct Parameter {
  ParamSpec spec;
  std::vector<device::View> slots;  // what updates write: of each part of the plan
  std::vector<LinearPart> parts;    // kLinear, kExperts
  ops::Tensor tensor;               // kEmbedding and kTaps [rows, columns], kNorm and kBias [rows]
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
  // Grows whenever an update writes: what was computed by another version is not to be reused.
  uint64_t version() const { return version_; }

  // From now on the slot of this parameter holds that expert's bytes, for what updates write there.
  // REQUIRES: its experts lie in slots, and this is one of them.
  void SetSlotExpert(std::string_view name, int slot, int32_t expert);

  // Replaces the values of `name` by those of `source`, which spells names as the checkpoint did.
  // Shape and number formats must be those of the load. On an error the old values stand, unless
  // the device itself failed. REQUIRES: no step is running.
  Status Update(device::Device& device, device::Stream& stream, std::string_view name,
                const files::TensorSource& source);

 private:
  friend class Placer;
  PlanOptions options_;
  std::map<std::string, std::unique_ptr<Parameter>, std::less<>> parameters_;
  std::vector<device::Buffer> memory_;  // that all parameters lie in
  size_t bytes_ = 0;
  uint64_t version_ = 1;
};

}  // namespace sluice::weights
