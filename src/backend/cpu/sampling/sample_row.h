// One row of the sampling op, put together from an instruction set's passes. Gives the reference's
// outputs to the bit (ops/sampling_rules.h). Allocates nothing and sorts no vocabulary.
#pragma once

#include <span>

#include "backend/cpu/sampling/kernels.h"
#include "ops/sampling.h"

namespace sluice::cpu {

// `workspace` is F32 [2 * vocab]. Any thread may call; rows may run beside each other.
void SampleRowBy(const SamplingKernels& kernels, const ops::Sample::Desc& desc,
                 const ops::Sample::Args& args, int64_t row, std::span<float> workspace);

}  // namespace sluice::cpu
