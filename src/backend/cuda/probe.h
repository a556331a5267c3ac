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

// Starts the driver at its first call in the process, which fixes what later ones see. Thread-safe.
ProbeResult ProbeDevices(const device::VisibleDevices& visible);
// What ProbeDevices gave; empty before.
ProbeResult LastProbe();

// The value of CUDA_VISIBLE_DEVICES that shows exactly `visible`: "0,2", "GPU-8932", "" for none.
// REQUIRES: visible.restricted.
std::string VisibleList(const device::VisibleDevices& visible);

}  // namespace sluice::cuda
