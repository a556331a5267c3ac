// Products of experts in F8 that have few rows each, and what their gates open for as codes.
#include "backend/cuda/linear/f8_experts.cuh"

#define SLUICE_F8_EXPERTS(name, tokens, gated)                                           \
  extern "C" __global__ void __launch_bounds__(sluice::cuda::F8ExpertsThreads(gated), 1) \
      name(const __grid_constant__ sluice::cuda::F8ExpertsParams params) {               \
    extern __shared__ __align__(1024) uint8_t f8_ring[];                                 \
    sluice::cuda::F8Experts<tokens, gated, __nv_bfloat16>(params, f8_ring).Run();        \
  }
SLUICE_F8_EXPERTS(f8_experts_8, 8, false)
SLUICE_F8_EXPERTS(f8_experts_16, 16, false)
SLUICE_F8_EXPERTS(f8_experts_32, 32, false)
SLUICE_F8_EXPERTS(f8_experts_8_gated, 8, true)
SLUICE_F8_EXPERTS(f8_experts_16_gated, 16, true)
SLUICE_F8_EXPERTS(f8_experts_32_gated, 32, true)
