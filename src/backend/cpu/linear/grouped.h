// grouped_linear on the kernels of linear: the rows of several experts are made into tiles
// together, then threads take parts of those experts' matrices, so that a step of few rows, in
// which every expert has one or two, costs as few barriers as one product.
#pragma once

#include "backend/cpu/linear/packed.h"
#include "backend/cpu/stream.h"
#include "ops/grouped_linear.h"

namespace sluice::cpu {

// REQUIRES: the arguments are checked, and an expert's rows are whole groups of the kernels.
Status RunGroupedLinear(CpuStream& stream, const ops::GroupedLinear::Desc& desc,
                        const ops::GroupedLinear::Args& args, const LinearKernels& kernels);

}  // namespace sluice::cpu
