// Products of W and x in BF16 for any number of tokens.
#include "backend/cuda/linear/wgmma_kernel.cuh"
#include "backend/cuda/linear/wgmma_kernel_list.h"

#define SLUICE_WGMMA_BF16(tokens, groups, unit_ns) \
  SLUICE_WGMMA_KERNEL(bf16_wgmma_##tokens##x##groups, __nv_bfloat16, tokens, groups)
WGMMA_LIST(SLUICE_WGMMA_BF16)
