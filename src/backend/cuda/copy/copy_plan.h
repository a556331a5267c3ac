// How each planned run is copied. Pure; tested without a GPU.
#pragma once

#include <span>
#include <vector>

#include "backend/cuda/copy/copy_runs.h"
#include "backend/cuda/launch.h"
#include "device/copy_list.h"

namespace sluice::cuda {

enum class CopyMethod : uint8_t {
  kKernel,    // together with the others of its batch
  kDriver,    // by the driver's copy, which the stream waits for and the host does not
  kBlocking,  // the same, and then the host waits for the stream: plain host memory is part of it
  kHost,      // the host waits for the stream and copies between two of its own memories
};

// `alone`: the run has its batch for itself.
CopyMethod MethodFor(const device::CopyRun& run, bool alone);

CopyRunParams ParamsOf(const device::CopyRun& run);

// Grid and block for a list of `count` runs.
LaunchShape ShapeOf(const CopyRunList& list, int count);

}  // namespace sluice::cuda
