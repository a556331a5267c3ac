// Makes the work list of a step: one thread block, once for all layers that share a block table.
#include "backend/cuda/attention/plan.h"
#include "backend/cuda/simt/dependence.cuh"

namespace sluice::cuda {
namespace {

constexpr int kWarps = kPlanThreads / 32, kNumbers = 4;  // that are summed at once, at most

struct BlockLanes {
  static constexpr int kLanes = kPlanThreads;

  int64_t (&of_warps)[kWarps][kNumbers];

  __device__ int lane() const { return threadIdx.x; }

  template <int kCount>
  __device__ void Scan(int64_t (&values)[kCount], int64_t (&all)[kCount]) const {
    static_assert(kCount <= kNumbers);
    const int warp = lane() / 32;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
#pragma unroll
      for (int64_t& value : values) {
        const int64_t below = __shfl_up_sync(0xffffffffu, value, step);
        if (lane() % 32 >= step) value += below;
      }
    }
    __syncthreads();  // what was there is read
    if (lane() % 32 == 31) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) of_warps[warp][i] = values[i];
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      all[i] = 0;
#pragma unroll
      for (int w = 0; w < kWarps; ++w) {
        if (w < warp) values[i] += of_warps[w][i];
        all[i] += of_warps[w][i];
      }
    }
  }

  template <int kCount>
  __device__ void Largest(int (&values)[kCount]) const {
    static_assert(kCount <= kNumbers);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      values[i] = __reduce_max_sync(0xffffffffu, values[i]);
      if (lane() % 32 == 0) of_warps[lane() / 32][i] = values[i];
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
#pragma unroll
      for (int w = 0; w < kWarps; ++w) values[i] = max(values[i], static_cast<int>(of_warps[w][i]));
    }
  }
};

}  // namespace
}  // namespace sluice::cuda

extern "C" __global__ void __launch_bounds__(sluice::cuda::kPlanThreads)
    any_i32_attention_plan(const __grid_constant__ sluice::cuda::AttentionParams params) {
  using namespace sluice::cuda;
  __shared__ int64_t of_warps[kWarps][kNumbers];
  WaitForInputs();
  MakePlan(params, BlockLanes{of_warps}, params.plan);
}
