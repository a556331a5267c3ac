// Puts planned copies on a stream.
#pragma once

#include <span>

#include "backend/cuda/stream.h"
#include "device/copy_list.h"

namespace sluice::cuda {

// `runs` as device::PlanCopies made them. kFailedPrecondition for plain host memory while a graph
// is captured, before anything is copied.
Status CopyRuns(CudaStream& stream, std::span<const device::CopyRun> runs);

}  // namespace sluice::cuda
