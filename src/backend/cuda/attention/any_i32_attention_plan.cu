// Makes the work list of a step: one warp, once for all layers that share a block table.
#include "backend/cuda/attention/plan.h"
#include "backend/cuda/simt/dependence.cuh"

namespace sluice::cuda {
namespace {

struct WarpLanes {
  static constexpr int kLanes = 32;

  __device__ int lane() const { return threadIdx.x; }
  template <class T>
  __device__ T Scan(T value) const {
#pragma unroll
    for (int step = 1; step < kLanes; step *= 2) {
      const T below = __shfl_up_sync(0xffffffffu, value, step);
      if (lane() >= step) value += below;
    }
    return value;
  }
  template <class T>
  __device__ T Last(T value) const {
    return __shfl_sync(0xffffffffu, value, kLanes - 1);
  }
  __device__ int Largest(int value) const { return __reduce_max_sync(0xffffffffu, value); }
};

}  // namespace
}  // namespace sluice::cuda

extern "C" __global__ void __launch_bounds__(32)
    any_i32_attention_plan(const __grid_constant__ sluice::cuda::AttentionParams params) {
  sluice::cuda::WaitForInputs();
  sluice::cuda::MakePlan(params, sluice::cuda::WarpLanes(), params.plan);
}
