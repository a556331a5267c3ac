// Attention of half-precision rows over half-precision KV.
#include "backend/cuda/attention/mma_attention.cuh"

SLUICE_MMA_ATTENTION_SIZES(sm80_f16_attention, __half, __half, kPlain)
