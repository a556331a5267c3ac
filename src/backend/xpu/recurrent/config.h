// What the gated delta rule's kernel is compiled for and over which groups it runs: pure functions
// of the descriptor, the sizes of a call's tensors and the device's facts.
#pragma once

#include <string>

#include "backend/xpu/launch_shape.h"
#include "ops/recurrent.h"

namespace sluice::xpu {

struct GatedDeltaConfig {
  std::string options;  // the program's: the same for every call of a layer
  LaunchShape shape;
};

GatedDeltaConfig ConfigureGatedDelta(const ops::GatedDelta::Desc& desc, int64_t sequences,
                                     const device::DeviceFacts& facts);

ops::Support GatedDeltaSupports(const ops::GatedDelta::Desc& desc,
                                const device::DeviceFacts& facts);

}  // namespace sluice::xpu
