// What the kernel that does many copies at once is given. Shared by host and device.
#pragma once

#include <cstdint>

namespace sluice::cuda {

// Rows of `row_units` units of 1, 4 or 16 bytes. Strides are in bytes.
struct CopyRunParams {
  uint64_t destination, source;
  uint64_t row_units, rows;
  uint64_t destination_stride, source_stride;
  uint32_t unit;
  uint32_t padding;
};

// Kernel parameters hold 4 KiB.
inline constexpr int kRunsPerLaunch = 72;
struct CopyRunList {
  CopyRunParams runs[kRunsPerLaunch];
};
static_assert(sizeof(CopyRunList) <= 4096);

inline constexpr unsigned kCopyThreads = 256;
// Units that a thread copies where there are many.
inline constexpr unsigned kCopyUnits = 4;

}  // namespace sluice::cuda
