// Attention of half-precision rows over half-precision KV.
#include "backend/cuda/attention/mma_attention.cuh"

SLUICE_MMA_ATTENTION(sm80_f16_attention_64, __half, __half, kPlain, 64)
SLUICE_MMA_ATTENTION(sm80_f16_attention_96, __half, __half, kPlain, 96)
SLUICE_MMA_ATTENTION(sm80_f16_attention_128, __half, __half, kPlain, 128)
SLUICE_MMA_ATTENTION(sm80_f16_attention_256, __half, __half, kPlain, 256)
