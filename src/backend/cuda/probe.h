// Which GPUs this process may use, and why it may not use others.
#pragma once

#include <string>
#include <vector>

#include "device/backend.h"

namespace sluice::cuda {

struct ProbeResult {
  std::vector<device::DeviceFacts> devices;
  std::string left_out;  // why there are none, or why some are not among them
};

// Starts the driver at its first call in the process, which fixes what later ones see: it gets the
// list as the resolver read it. Thread-safe, while no thread reads the environment.
ProbeResult ProbeDevices(const device::VisibleDevices& visible);
// What ProbeDevices gave; empty before.
ProbeResult LastProbe();

}  // namespace sluice::cuda
