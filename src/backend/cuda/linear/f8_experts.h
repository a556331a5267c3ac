// Experts' products in F8 with few rows each, put on a stream.
#pragma once

#include "backend/cuda/linear/f8_experts_config.h"
#include "ops/grouped_linear.h"

namespace sluice::cuda {

// What is made of the products: themselves, or of a gate's and what it opens for the codes.
struct F8ExpertOutputs {
  ops::Tensor out;     // [places, n], or codes [places, n / 2]
  ops::Tensor scales;  // of codes, F32 [groups, places]; else empty
  uint32_t kind = 0;   // ActivationKind of gates
};

// Whether there is a kernel for products like these, if shapes are as it takes them.
ops::Support SupportsF8Experts(const ops::GroupedLinear::Desc& desc);

// Rows of x that are no codes yet become some, each once, whichever experts take it; codes may
// stand beside tokens. REQUIRES: SupportsF8Experts takes the descriptor, and the plan is for it.
// `args.out` is not read.
Status MultiplyF8Experts(device::Stream& stream, const ops::GroupedLinear::Desc& desc,
                         const ops::GroupedLinear::Args& args, const F8ExpertsPlan& plan,
                         const F8ExpertOutputs& outputs);

}  // namespace sluice::cuda
