// Products of W and x in F8, both with scales.
#include "backend/cuda/linear/f8_kernel.cuh"
#include "backend/cuda/linear/f8_kernel_list.h"

#define SLUICE_F8_LINEAR(name, tokens, groups, cluster, blocks)                     \
  extern "C" __global__ void __cluster_dims__(cluster, 1, 1)                        \
      __launch_bounds__(sluice::cuda::F8Threads(groups), tokens <= 64 ? 2 : 1)      \
          name(const __grid_constant__ sluice::cuda::F8LinearParams params) {       \
    extern __shared__ __align__(1024) uint8_t f8_ring[];                            \
    sluice::cuda::F8Linear<tokens, groups, cluster, blocks>(params, f8_ring).Run(); \
  }
#define SLUICE_F8_BOTH(tokens, groups, cluster, unit_ns, tile_ns)                        \
  SLUICE_F8_LINEAR(f8_linear_##tokens##x##groups##_rows, tokens, groups, cluster, false) \
  SLUICE_F8_LINEAR(f8_linear_##tokens##x##groups##_blocks, tokens, groups, cluster, true)
F8_LINEAR_LIST(SLUICE_F8_BOTH)
