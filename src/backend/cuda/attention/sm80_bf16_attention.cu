// Attention of bfloat16 rows over bfloat16 KV.
#include "backend/cuda/attention/mma_attention.cuh"

SLUICE_MMA_ATTENTION_SIZES(sm80_bf16_attention, __nv_bfloat16, __nv_bfloat16, kPlain)
