// Whether experts' products in F8 go through the kernels for few rows each, and how: a pure choice
// by shapes. They have the bits of the other kernels, so it is one of speed alone.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "backend/cuda/linear/f8_experts_params.h"

namespace sluice::cuda {

struct F8ExpertsKernel {
  const char* function;
  const char* gated_function;
  int tokens;  // that an expert has at a time
};
// By tokens, ascending.
std::span<const F8ExpertsKernel> F8ExpertsKernels();

struct F8ExpertsShape {
  int64_t places = 0, n = 0, k = 0;
  int experts = 0;
  int compute_units = 132;
  bool gated = false;
};

struct F8ExpertsPlan {
  const F8ExpertsKernel* kernel = nullptr;
  int stages = 0, shared_bytes = 0;
  bool all_taken = false;
};

// Nothing where shared memory has no room for it, or n and k are no whole items and stages.
std::optional<F8ExpertsPlan> PlanF8ExpertsWith(const F8ExpertsKernel& kernel,
                                               const F8ExpertsShape& shape);
// By the kernel that goes over the weights once, or nearly, with as few tokens as that takes.
// Without gates nothing where the kernels of f8_config.h are faster, too: where experts have many
// rows, or most have none.
std::optional<F8ExpertsPlan> PlanF8Experts(const F8ExpertsShape& shape);

}  // namespace sluice::cuda
