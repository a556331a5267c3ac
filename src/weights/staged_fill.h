// Parameters for a device whose memory the host can't write. Their bytes go through a few host
// buffers, pinned where that can be had: threads fill one while the copies of those before it run,
// and each byte of the file is written on the host once. A part larger than a buffer goes in
// pieces. Files are not copied from in place: a driver that pins pages in order to copy them may
// refuse those of a file that is mapped for reading.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "device/device.h"
#include "weights/fill.h"

namespace sluice::weights {

// At most so many, of `buffer_bytes` each or, where one row group is larger, of that.
inline constexpr size_t kStagingBuffers = 4;

struct StagedFillOptions {
  size_t buffer_bytes = 0;  // of each buffer
  // After each job, on any thread. May be empty.
  FillThreads::Done filled;
  // When a parameter has arrived, in their order, on the calling thread.
  std::function<void(const PlannedParam&)> placed;
};

// Fills the places of those parameters that have memory of their own. On an error, which may be
// that of a copy, no copy is under way any more when it returns.
Status FillThroughStaging(device::Device& device, const std::vector<PlannedParam>& params,
                          const StagedFillOptions& options);

}  // namespace sluice::weights
