// Products of W and x in F8, both with scales.
#include "backend/cuda/linear/f8_kernel.cuh"
#include "backend/cuda/linear/f8_kernel_list.h"

#define SLUICE_F8_LINEAR(name, tokens, groups, cluster, blocks, grouped)                     \
  extern "C" __global__ void __cluster_dims__(cluster, 1, 1) __launch_bounds__(              \
      sluice::cuda::F8Threads(groups), sluice::cuda::F8LeavesRoom(tokens, groups) ? 2 : 1)   \
      name(const __grid_constant__ sluice::cuda::F8LinearParams params) {                    \
    extern __shared__ __align__(1024) uint8_t f8_ring[];                                     \
    sluice::cuda::F8Linear<tokens, groups, cluster, blocks, grouped>(params, f8_ring).Run(); \
  }
#define SLUICE_F8_ALL(tokens, groups, cluster, unit_ns, tile_ns)                                 \
  SLUICE_F8_LINEAR(f8_linear_##tokens##x##groups##_rows, tokens, groups, cluster, false, false)  \
  SLUICE_F8_LINEAR(f8_linear_##tokens##x##groups##_blocks, tokens, groups, cluster, true, false) \
  SLUICE_F8_LINEAR(f8_grouped_##tokens##x##groups##_rows, tokens, groups, cluster, false, true)  \
  SLUICE_F8_LINEAR(f8_grouped_##tokens##x##groups##_blocks, tokens, groups, cluster, true, true)
F8_LINEAR_LIST(SLUICE_F8_ALL)
