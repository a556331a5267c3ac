// Placer: puts resolved parameters on a device. Used by Place and ParameterMap::Update.
#pragma once

#include <string>
#include <vector>

#include "device/device.h"
#include "weights/parameters.h"
#include "weights/repack.h"

namespace sluice::weights {

// A parameter with everything decided but nothing allocated.
struct PlannedParam {
  ResolvedParam resolved;
  std::vector<PartPlan> parts;  // kLinear
  // kLinear: reads the embedding's memory, which has the same rows in the same layout.
  const PlannedParam* shares = nullptr;

  size_t bytes(DType activation) const;
};

// In the order of `specs`; PlannedParams keep their addresses.
Result<std::vector<std::unique_ptr<PlannedParam>>> PlanParams(const std::vector<ParamSpec>& specs,
                                                              const files::TensorSource& source,
                                                              const ops::OpTable& table,
                                                              const PlaceOptions& options);

// The bytes of part `i` of a parameter (or of the whole, for other roles), as they lie on the
// device. `out` is host memory of exactly that size, zero.
Status FillPart(const PlannedParam& param, size_t i, DType activation, int threads,
                std::span<std::byte> out);

// Threads that may pack weights for `device`: its own where it is the CPU, else the host's.
int PackThreads(const device::Device& device);

}  // namespace sluice::weights
