// The work-groups of one launch: plain values.
#pragma once

#include <cstddef>

#include "device/extent.h"

namespace sluice::xpu {

struct LaunchShape {
  device::Extent<size_t> groups;
  size_t items = 1;  // of a group, all in the first dimension
};

}  // namespace sluice::xpu
