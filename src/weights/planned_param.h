// From declared parameters to what is placed where. Used by Place and ParameterMap::Update. Any
// thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "device/device.h"
#include "weights/place.h"
#include "weights/repack.h"

namespace sluice::weights {

// A parameter with everything decided but nothing allocated.
struct PlannedParam {
  ResolvedParam resolved;
  std::vector<PartPlan> parts;  // kLinear
  // kLinear: reads the embedding's memory, which has the same rows in the same layout.
  const PlannedParam* shares = nullptr;
  // kEmbedding: its rows, read from the file in place; or null.
  std::shared_ptr<std::byte> mapped;
  std::vector<device::View> places;  // of the parts, on the device; filled by Place

  size_t part_count() const;
  // Of part `i`, or of the whole for other roles, as they lie on the device.
  size_t part_bytes(size_t i, DType activation) const;
  // That have to be allocated for all parts.
  size_t bytes(DType activation) const;
};

// What norms and biases are stored as.
DType VectorDType(ParamRole role, DType activation);

// In the order of `specs`; PlannedParams keep their addresses.
Result<std::vector<std::unique_ptr<PlannedParam>>> PlanParams(const std::vector<ParamSpec>& specs,
                                                              const files::TensorSource& source,
                                                              const ops::OpTable& table,
                                                              const PlaceOptions& options);

}  // namespace sluice::weights
