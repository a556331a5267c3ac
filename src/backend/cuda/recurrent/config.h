// Kernels and grids of a recurrent layer. Pure; tested without a GPU.
#pragma once

#include <cstdint>

#include "backend/cuda/launch.h"
#include "ops/recurrent.h"

namespace sluice::cuda {

// Numbers of a column that a lane of a recurrence's kernel holds: the least that there is a kernel
// for. 0: there is none.
int StateRows(int k_head_dim);
LaunchShape StateShape(int v_heads, int v_head_dim, int64_t sequences);

// A block per `count` and piece of channels.
LaunchShape ShortConvShape(int64_t count, int64_t channels);

// A block per piece of channels and sequence.
LaunchShape SelectiveScanShape(int64_t channels, int64_t sequences);
// Numbers of a channel's state that a thread of a scan holds: the least that there is a kernel for.
// 0: there is none.
int ScanSize(int state_size);

ops::Support ShortConvSupports(const ops::ShortConv::Desc& desc, const device::DeviceFacts& facts);
ops::Support GatedDeltaSupports(const ops::GatedDelta::Desc& desc,
                                const device::DeviceFacts& facts);
ops::Support SsdSupports(const ops::Ssd::Desc& desc, const device::DeviceFacts& facts);
ops::Support SelectiveScanSupports(const ops::SelectiveScan::Desc& desc,
                                   const device::DeviceFacts& facts);

}  // namespace sluice::cuda
