// What the sampling kernel takes on: pure.
#pragma once

#include "ops/sampling.h"

namespace sluice::cuda {

// Vocabularies whose rows fit the shared memory of a cluster, and lists of log-probs that fit its
// bins.
ops::Support SampleSupports(const ops::Sample::Desc& desc, const device::DeviceFacts& facts);

}  // namespace sluice::cuda
