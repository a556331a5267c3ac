// Products of W and x in F16 for any number of tokens.
#include "backend/cuda/linear/wgmma_kernel.cuh"
#include "backend/cuda/linear/wgmma_kernel_list.h"

#define SLUICE_WGMMA_F16(tokens, groups, unit_ns) \
  SLUICE_WGMMA_KERNEL(f16_wgmma_##tokens##x##groups, __half, tokens, groups)
WGMMA_LIST(SLUICE_WGMMA_F16)
