// Decode of few rows in 16 bits over KV in I8 codes, multiplied in bfloat16.
#include "backend/cuda/attention/cluster_attention.cuh"

SLUICE_CLUSTER_ATTENTION_SIZES(sm90_bf16_attention_cluster_i8_bf16, __nv_bfloat16, __nv_bfloat16,
                               kI8)
SLUICE_CLUSTER_ATTENTION_SIZES(sm90_bf16_attention_cluster_i8_f16, __nv_bfloat16, __half, kI8)
