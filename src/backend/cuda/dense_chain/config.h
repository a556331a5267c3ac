// Which dense chains the kernel takes and how its shared memory is shared out: pure functions of
// shapes.
#pragma once

#include "ops/dense_chain.h"

namespace sluice::cuda {

// Tokens of a call, at most.
inline constexpr int64_t kChainTokensMax = 4;

ops::Support SupportsChain(const ops::DenseChain::Desc& desc);

struct ChainPlan {
  const char* function = nullptr;
  int stages = 0;      // of the ring
  int asked_max = 0;   // of these, that may be on their way at a time
  int code_bytes = 0;  // of the longest rows
  int shared_bytes = 0;
};
// REQUIRES: SupportsChain(desc), 1 <= tokens <= desc.tokens.
ChainPlan PlanChain(const ops::DenseChain::Desc& desc, int tokens);

}  // namespace sluice::cuda
