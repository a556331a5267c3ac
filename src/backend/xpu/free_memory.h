// How much of a device's memory an allocation can get, as far as that can be known. Pure; any
// thread.
#pragma once

#include <algorithm>
#include <cstddef>

namespace sluice::xpu {

// OpenCL tells of no device how much of its memory is free, so what other processes and the desktop
// hold of a GPU's own memory is taken to be at most this share of it: one of so many parts.
inline constexpr size_t kReservedPart = 16;

// Of memory of the device's own, in bytes. `ours`: what this process has allocated.
inline size_t FreeOfDevice(size_t total, size_t ours) {
  const size_t usable = total - total / kReservedPart;
  return usable - std::min(usable, ours);
}

// Of memory that is the host's, of which Linux tells what is `available`.
inline size_t FreeOfHost(size_t total, size_t ours, size_t available) {
  return std::min(total - std::min(total, ours), available);
}

}  // namespace sluice::xpu
