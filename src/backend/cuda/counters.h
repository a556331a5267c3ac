// Counters that the thread blocks of a kernel share.
#pragma once

#include <cstdint>

#include "device/device.h"

namespace sluice::cuda {

inline constexpr int kCounters = 64;

// kCounters of the stream, in device memory, for the kernel that is put on it next. They are zero
// when it begins and it leaves them so. The address stays the same as long as the stream.
uint32_t* Counters(device::Stream& stream);

}  // namespace sluice::cuda
