// Attention of bfloat16 rows over bfloat16 KV.
#include "backend/cuda/attention/mma_attention.cuh"

SLUICE_MMA_ATTENTION(sm80_bf16_attention_64, __nv_bfloat16, __nv_bfloat16, kPlain, 64)
SLUICE_MMA_ATTENTION(sm80_bf16_attention_96, __nv_bfloat16, __nv_bfloat16, kPlain, 96)
SLUICE_MMA_ATTENTION(sm80_bf16_attention_128, __nv_bfloat16, __nv_bfloat16, kPlain, 128)
SLUICE_MMA_ATTENTION(sm80_bf16_attention_256, __nv_bfloat16, __nv_bfloat16, kPlain, 256)
