// Attention of rows in 16 bits over KV in I8 codes, multiplied in bfloat16.
#include "backend/cuda/attention/mma_attention.cuh"

SLUICE_MMA_ATTENTION_SIZES(sm80_bf16_attention_i8_bf16, __nv_bfloat16, __nv_bfloat16, kI8)
SLUICE_MMA_ATTENTION_SIZES(sm80_bf16_attention_i8_f16, __nv_bfloat16, __half, kI8)
