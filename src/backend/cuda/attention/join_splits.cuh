// Joins the splits of a row in ascending order, by the arithmetic of any_f32_attention_combine.cu.
#pragma once

#include "backend/cuda/attention/walk.cuh"

namespace sluice::cuda {

// A column of a row's sums of V, one a lane, and the row's state. Partial results of splits lie
// `heads` states and rows of `dim` numbers apart, where other thread blocks have stored them; the
// column's are at `parts`. Called by a whole warp, each lane of which has the factors of one split.
__device__ inline float JoinSplits(const float2* states, const float* parts, int64_t heads, int dim,
                                   int splits, RowState* state) {
  constexpr int kAhead = 8;  // splits on their way
  const int lane = threadIdx.x % 32;
  const int64_t stride = heads * dim;
  float before = -INFINITY, sum = -0.0f, value = -0.0f;  // to which 0 adds its own sign
  float next[kAhead];
#pragma unroll 1
  for (int begin = 0; begin < splits; begin += 32) {
    const int end = min(32, splits - begin);
    const auto load = [&](int i) {
#pragma unroll
      for (int j = 0; j < kAhead; ++j, parts += stride)
        next[j] = i + j < end ? __ldcg(parts) : 0.0f;
    };
    const float2 own =
        lane < end ? __ldcg(states + (begin + lane) * heads) : float2{-INFINITY, 0.0f};
    load(0);
    float largest = own.x;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
      const float below = __shfl_up_sync(0xffffffffu, largest, step);
      if (lane >= step) largest = fmaxf(below, largest);
    }
    float previous = __shfl_up_sync(0xffffffffu, largest, 1);
    previous = lane == 0 ? before : fmaxf(before, previous);
    largest = fmaxf(before, largest);
    const float2 join = begin + lane == 0
                            ? float2{1.0f, 1.0f}
                            : float2{exp2f(previous - largest), exp2f(own.x - largest)};
    before = __shfl_sync(0xffffffffu, largest, 31);
#pragma unroll 1
    for (int i = 0; i < end; i += kAhead) {
      if (i > 0) load(i);
#pragma unroll
      for (int j = 0; j < kAhead; ++j) {
        if (i + j >= end) break;
        const float2 factor = {__shfl_sync(0xffffffffu, join.x, i + j),
                               __shfl_sync(0xffffffffu, join.y, i + j)};
        sum = __fmaf_rn(sum, factor.x, __shfl_sync(0xffffffffu, own.y, i + j) * factor.y);
        value = Joined(value, next[j], factor);
      }
    }
  }
  *state = {before, sum};
  return value;
}

}  // namespace sluice::cuda
