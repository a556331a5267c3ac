// Which experts chains the kernel takes and how its shared memory is shared out: pure functions of
// shapes.
#pragma once

#include "ops/experts_chain.h"

namespace sluice::cuda {

// `compute_units`: multiprocessors, each of which has a thread block.
ops::Support SupportsExpertsChain(const ops::ExpertsChain::Desc& desc, int compute_units);

struct ExpertsChainPlan {
  int stages = 0;      // of the ring
  int asked_max = 0;   // of these, that may be on their way at a time
  int code_bytes = 0;  // with the router's x
  int row_at = 0;      // of the router's x behind the first code
  int routed_at = 0;   // of RoutedToken in shared memory
  int shared_bytes = 0;
};
// REQUIRES: SupportsExpertsChain(desc).
ExpertsChainPlan PlanExpertsChain(const ops::ExpertsChain::Desc& desc);

}  // namespace sluice::cuda
