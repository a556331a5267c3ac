// Experts chains whose weights are in F8 with scales of blocks, behind a router in BF16.
#include "backend/cuda/experts_chain/experts_chain.cuh"

extern "C" __global__ void __launch_bounds__(sluice::cuda::kChainThreads, 1)
    f8_experts_chain(const __grid_constant__ sluice::cuda::ExpertsChainParams params) {
  extern __shared__ __align__(1024) uint8_t chain_memory[];
  sluice::cuda::ExpertsChain<__nv_bfloat16>(params, chain_memory).Run();
}
