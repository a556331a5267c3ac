// Host memory that copies to and from a device go through.
#pragma once

#include "device/device.h"

namespace sluice::device {

// Pinned where the device can pin memory, else plain host memory, so that nobody asks for what a
// device has not got. Zeroed.
inline Result<Buffer> AllocateStaging(Device& device, size_t bytes) {
  return device.Allocate(bytes,
                         device.facts().pinned_memory ? MemoryKind::kPinned : MemoryKind::kHost);
}

}  // namespace sluice::device
