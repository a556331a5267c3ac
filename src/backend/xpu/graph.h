// Captured work: the kernels that a body launched, each with its arguments, replayed as one command
// buffer of the driver where it has and makes them, else one by one from the recorded list.
#pragma once

#include <memory>
#include <vector>

#include "backend/xpu/stream.h"
#include "device/device.h"
#include "device/graph.h"

namespace sluice::xpu {

enum class GraphMechanism { kCommandBuffer, kLaunchList };

// REQUIRES: the stream captures nothing yet; of kCommandBuffer: the device has them. `device` and
// `stream` outlive the graph.
Result<std::unique_ptr<device::Graph>> CaptureGraph(device::Device& device, XpuStream& stream,
                                                    GraphMechanism mechanism,
                                                    const device::CaptureBody& body);

}  // namespace sluice::xpu
