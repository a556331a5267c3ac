// The body of a loop of peaks over vector registers. For files compiled for an instruction set.
#pragma once

#include "backend/cpu/ceilings/kernels.h"

namespace sluice::cpu {
namespace {

// Sums that do not wait for one another: more than latency times throughput of any dot product.
// With the operands and a temporary they fit 16 registers, or 32.
template <int kSums, class Vector, class Dot>
inline __attribute__((always_inline)) void RepeatDot(int64_t rounds, Vector a, Vector b,
                                                     const Dot& dot) {
  Vector sums[kSums];
  for (int i = 0; i < kSums; ++i) sums[i] = a;
  for (int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 16
    for (int i = 0; i < kSums; ++i) dot(sums[i], a, b);
  }
}

}  // namespace
}  // namespace sluice::cpu
