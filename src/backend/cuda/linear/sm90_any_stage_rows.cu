// Rows of x at addresses and in a type that the linear kernels read.
#include "backend/cuda/linear/linear_kernel.cuh"
#include "backend/cuda/linear/params.h"
#include "backend/cuda/simt/dependence.cuh"

extern "C" __global__ void __launch_bounds__(256)
    stage_rows(const __grid_constant__ sluice::cuda::StageParams p) {
  sluice::cuda::WaitForInputs();
  const int64_t row = blockIdx.x;
  for (int i = threadIdx.x; i < p.width; i += blockDim.x) {
    const float v = i < p.k ? sluice::cuda::LoadAs(p.from, p.x, row * p.x_stride + i) : 0.0f;
    sluice::cuda::StoreAs(p.to, p.out, row * p.width + i, v);
  }
}
