// Selection of the largest values of a list by count or by weight, without sorting it. Any thread
// may call; the list is the caller's.
#pragma once

#include "backend/cpu/sampling/kernels.h"

namespace sluice::cpu {

// A prefix of values in descending order: all above `value` and the first `ties` equal to it.
struct Cut {
  float value = 0.0f;
  int64_t ties = 0;
  bool reached = true;  // whether the prefix measures the target
};

// The shortest prefix of at least one value whose weights (by `weigh`'s max, scale, floor and grid)
// sum to `target` or more; with a null `weigh` each value weighs 1. All of the list when that is
// less. Overwrites the list. Time is linear in n for each halving of the range of the values that
// are in question. REQUIRES: n > 0, no NaN. -inf only with a null `weigh`.
Cut SelectCut(const SamplingKernels& kernels, const WeightCall* weigh, float* list, int64_t n,
              double target);

}  // namespace sluice::cpu
