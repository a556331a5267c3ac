// What the kernels of recurrences are compiled for and over which groups they run: pure functions
// of the descriptor, the sizes of a call's tensors and the device's facts.
#pragma once

#include <string>

#include "backend/xpu/launch_shape.h"
#include "ops/recurrent.h"

namespace sluice::xpu {

struct StateConfig {
  std::string options;  // the program's: the same for every call of a layer
  LaunchShape shape;
};

StateConfig ConfigureGatedDelta(const ops::GatedDelta::Desc& desc, int64_t sequences,
                                const device::DeviceFacts& facts);
StateConfig ConfigureSsd(const ops::Ssd::Desc& desc, int64_t sequences,
                         const device::DeviceFacts& facts);
StateConfig ConfigureSelectiveScan(const ops::SelectiveScan::Desc& desc, int64_t sequences,
                                   const device::DeviceFacts& facts);

ops::Support GatedDeltaSupports(const ops::GatedDelta::Desc& desc,
                                const device::DeviceFacts& facts);
ops::Support SsdSupports(const ops::Ssd::Desc& desc, const device::DeviceFacts& facts);
ops::Support SelectiveScanSupports(const ops::SelectiveScan::Desc& desc,
                                   const device::DeviceFacts& facts);

}  // namespace sluice::xpu
