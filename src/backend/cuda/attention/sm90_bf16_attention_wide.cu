// Attention of many bfloat16 rows over bfloat16 KV.
#include "backend/cuda/attention/wide_attention.cuh"

SLUICE_WIDE_ATTENTION_SIZES(sm90_bf16_attention_wide, __nv_bfloat16)
