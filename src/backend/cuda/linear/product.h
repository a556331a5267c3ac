// One call of the kernels in kernel_list.h, for a product or for grouped ones: planned from shapes,
// then put on a stream.
#pragma once

#include "backend/cuda/linear/config.h"
#include "backend/cuda/linear/grouping.h"
#include "ops/linear.h"

namespace sluice::cuda {

// A call with its plan and, where x lies otherwise than kernels read it, a copy of x to make.
struct LinearCall {
  const LinearFamily* family = nullptr;
  LinearPlan plan;
  LinearParams params;
  bool staged = false;
  StageParams stage;
};

// What x is multiplied as.
DType FactorType(LinearArithmetic arithmetic);

// Whether the kernels of `arithmetic` take the product, and the memory for copies of `rows` rows
// of x.
ops::Support SupportsProduct(LinearArithmetic arithmetic, const ops::Linear::Desc& desc);
size_t ProductScratchBytes(LinearArithmetic arithmetic, const ops::Linear::Desc& desc,
                           int64_t rows);

// `grouping`: null, or args.weight is that of all experts, args.x has the rows of tokens and
// args.out those of places. REQUIRES: SupportsProduct; rows of x and of out.
Result<LinearCall> PlanCall(LinearArithmetic arithmetic, const device::DeviceFacts& facts,
                            const ops::Linear::Desc& desc, const ops::Linear::Args& args,
                            const Grouping* grouping);

// Launches of one call: one, or two where x is staged, for every m.
Status PutCall(device::Stream& stream, const ops::Linear::Desc& desc, LinearCall& call,
               const Grouping* grouping);

}  // namespace sluice::cuda
