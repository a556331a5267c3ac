// Holds every kernel of one device against the references: `sluice devices --verify`. Runs on the
// calling thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "device/types.h"
#include "ops/conformance.h"
#include "sluice/options.h"
#include "sluice/status.h"

namespace sluice::exec {

struct Verification {
  device::DeviceId device;
  std::vector<ops::ConformanceResult> results;  // one per implementation
  int failed = 0;                               // implementations
  std::string table;                            // the results for people
};

// On the device that `options` names, with `cases` of each op. An error is one of the device, not
// of an implementation.
Result<Verification> VerifyKernels(const EngineOptions& options, int cases, uint64_t seed);

}  // namespace sluice::exec
