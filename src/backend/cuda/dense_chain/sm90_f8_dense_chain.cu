// Dense chains whose weights are in F8 with scales of blocks.
#include "backend/cuda/dense_chain/dense_chain.cuh"

#define SLUICE_DENSE_CHAIN(name, tokens, type)                                 \
  extern "C" __global__ void __launch_bounds__(sluice::cuda::kChainThreads, 1) \
      name(const __grid_constant__ sluice::cuda::ChainParams params) {         \
    extern __shared__ __align__(1024) uint8_t chain_memory[];                  \
    sluice::cuda::DenseChain<tokens, type>(params, chain_memory).Run();        \
  }
SLUICE_DENSE_CHAIN(f8_dense_chain_2, 2, __nv_bfloat16)
SLUICE_DENSE_CHAIN(f8_dense_chain_4, 4, __nv_bfloat16)
