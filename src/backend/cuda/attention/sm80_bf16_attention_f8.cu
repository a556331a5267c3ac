// Attention of rows in 16 bits over KV in F8 codes, multiplied in bfloat16.
#include "backend/cuda/attention/mma_attention.cuh"

SLUICE_MMA_ATTENTION(sm80_bf16_attention_f8_bf16_64, __nv_bfloat16, __nv_bfloat16, kF8, 64)
SLUICE_MMA_ATTENTION(sm80_bf16_attention_f8_bf16_96, __nv_bfloat16, __nv_bfloat16, kF8, 96)
SLUICE_MMA_ATTENTION(sm80_bf16_attention_f8_bf16_128, __nv_bfloat16, __nv_bfloat16, kF8, 128)
SLUICE_MMA_ATTENTION(sm80_bf16_attention_f8_bf16_256, __nv_bfloat16, __nv_bfloat16, kF8, 256)
SLUICE_MMA_ATTENTION(sm80_bf16_attention_f8_f16_64, __nv_bfloat16, __half, kF8, 64)
SLUICE_MMA_ATTENTION(sm80_bf16_attention_f8_f16_96, __nv_bfloat16, __half, kF8, 96)
SLUICE_MMA_ATTENTION(sm80_bf16_attention_f8_f16_128, __nv_bfloat16, __half, kF8, 128)
SLUICE_MMA_ATTENTION(sm80_bf16_attention_f8_f16_256, __nv_bfloat16, __half, kF8, 256)
