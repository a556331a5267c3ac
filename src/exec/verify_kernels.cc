#include "exec/verify_kernels.h"

#include <algorithm>

#include "exec/open_device.h"

namespace sluice::exec {

Result<Verification> VerifyKernels(const EngineOptions& options, int cases, uint64_t seed) {
  SLUICE_ASSIGN_OR_RETURN(const OpenedDevice opened, OpenDevice(options));
  Verification verification;
  verification.device = opened.device->facts().id;
  SLUICE_ASSIGN_OR_RETURN(verification.results,
                          ops::RunConformance(*opened.device, {.seed = seed, .cases = cases}));
  verification.failed = static_cast<int>(
      std::count_if(verification.results.begin(), verification.results.end(),
                    [](const ops::ConformanceResult& result) { return !result.ok(); }));
  verification.table = ops::FormatConformance(verification.results);
  return verification;
}

}  // namespace sluice::exec
