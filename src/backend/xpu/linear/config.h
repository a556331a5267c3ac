// Which kernel linear runs and over which groups: a pure function of the descriptor, the rows of a
// call and the device's facts.
#pragma once

#include <string>

#include "backend/xpu/launch_shape.h"
#include "ops/linear.h"

namespace sluice::xpu {

struct LinearConfig {
  const char* function = "";
  std::string options;  // the program's: the same for every m, n and k
  LaunchShape shape;
};

// REQUIRES: m >= 1.
LinearConfig ConfigureLinear(const ops::Linear::Desc& desc, int64_t m,
                             const device::DeviceFacts& facts);

}  // namespace sluice::xpu
