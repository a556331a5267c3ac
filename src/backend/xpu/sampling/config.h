// Over which groups sampling runs and what scratch memory it takes: pure functions of the
// descriptor, the rows of a call and the device's facts.
#pragma once

#include <string>

#include "backend/xpu/launch_shape.h"
#include "ops/sampling.h"

namespace sluice::xpu {

struct SampleConfig {
  std::string options;       // the program's: the same for every vocabulary and batch
  LaunchShape shape;         // a group per row
  int64_t chunk = 0;         // ids of a work-item; of a multiple of 16, so that each begins aligned
  size_t scratch_bytes = 0;  // two rows of chunks for each row
};

SampleConfig ConfigureSample(const ops::Sample::Desc& desc, int64_t rows,
                             const device::DeviceFacts& facts);

ops::Support SampleSupports(const ops::Sample::Desc& desc, const device::DeviceFacts& facts);

}  // namespace sluice::xpu
